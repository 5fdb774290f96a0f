// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/bench/document"
	"falldio.github.io/gpu-controller/bench/openb/dataset"
)

// The files that a report reads and writes.
const (
	demandPlot = "openb-demand.svg"
	gainPlot   = "openb-gain.svg"
)

// report replays what its parts need, and writes them.
type report struct {
	dir, data string
	seed      int64
	seeds     int
	// few is the number of seeds for what takes long.
	few  int
	out  io.Writer
	load load
	// traces are those in the folder data.
	traces []string
	// examples are the traces used for what takes long.
	examples []string

	workloads map[string]*workload
	curves    map[string]curve // of replays that are done
	limits    map[string]*bounds
}

// part is a generated part of the document.
type part struct {
	name  string
	write func(*report) (string, error)
}

var parts = []part{
	{"results", (*report).results},
	{"reproduction", (*report).reproduction},
	{"ties", (*report).ties},
	{"mix", (*report).mix},
	{"bounds", (*report).bounded},
	{"ablation", (*report).ablation},
	{"departures", (*report).departed},
	{"plots", (*report).plots},
}

// marked returns a part of the document.
func marked(name string) document.Part { return document.Part{Tool: "bench/openb", Name: name} }

func partNames() []string {
	names := make([]string, len(parts))
	for i := range parts {
		names[i] = parts[i].name
	}
	return names
}

func newReport(o *options, out io.Writer) (*report, error) {
	found, err := tracesIn(o.data)
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	r := &report{
		dir: o.report, data: o.data, seed: o.seed, seeds: o.seeds, few: min(o.seeds, 3), out: out, traces: found,
		load:      load{asked: o.load, jobs: o.jobs},
		workloads: map[string]*workload{}, curves: map[string]curve{}, limits: map[string]*bounds{},
	}
	for _, example := range []string{"default", "gpuspec20", "multigpu50", "gpushare100"} {
		if slices.Contains(found, example) {
			r.examples = append(r.examples, example)
		}
	}
	return r, nil
}

// tracesIn returns the traces of a folder, the published ones first.
func tracesIn(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, fmt.Sprintf(dataset.PodsFile, "*")))
	if err != nil {
		return nil, err
	}
	head, tail, _ := strings.Cut(dataset.PodsFile, "%s")
	var found []string
	for _, file := range files {
		found = append(found, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), head), tail))
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: there is no file %s", folder, fmt.Sprintf(dataset.PodsFile, "*"))
	}
	rank := func(trace string) int {
		if at := slices.Index(publishedTraces, trace); at >= 0 {
			return at
		}
		return len(publishedTraces)
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	return found, nil
}

// write replaces parts of the document.
func (r *report) write(names []string) error {
	for _, p := range parts {
		if !slices.Contains(names, p.name) {
			continue
		}
		begin := time.Now()
		text, err := p.write(r)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := marked(p.name).ReplaceIn(filepath.Join(r.dir, document.Name), text); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
		fmt.Fprintf(r.out, "%s: written after %v\n", p.name, time.Since(begin).Round(time.Second))
	}
	return nil
}

// workload returns a trace, which is read only once.
func (r *report) workload(trace string) (*workload, error) {
	if known := r.workloads[trace]; known != nil {
		return known, nil
	}
	w, err := readWorkload(filepath.Join(r.data, dataset.NodesFile), filepath.Join(r.data, fmt.Sprintf(dataset.PodsFile, trace)))
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	r.workloads[trace] = w
	return w, nil
}

// curve is the allocation by demand, both in percent.
type curve []float64

// at is the allocation at a demand.
func (c curve) at(percent int) float64 { return c[percent] }

// replay returns the mean curve of some seeds, which are replayed only once.
func (r *report) replay(trace string, e entrant, seeds int) (curve, error) {
	key := fmt.Sprint(trace, e, seeds)
	if known := r.curves[key]; known != nil {
		return known, nil
	}
	w, err := r.workload(trace)
	if err != nil {
		return nil, err
	}
	mean := make(curve, int(100*demandLimit)+1)
	for seed := r.seed; seed < r.seed+int64(seeds); seed++ {
		result, err := w.replay(&e, seed)
		if err != nil {
			return nil, err
		}
		for percent := range mean {
			mean[percent] += result.at(percent) / float64(seeds)
		}
	}
	r.curves[key] = mean
	return mean, nil
}

// usual returns the policies as they are compared: ours learns the mix, FGD knows it, and
// the published ones decide ties as published.
func usual(policy string) entrant {
	o := options{policy: policy}
	o.fill()
	return o.entrant()
}

// titles are the policies' names in tables.
var titles = map[string]string{ours: "ours", fgd: "FGD", bestFit: "BestFit", dotProd: "DotProd", random: "Random"}

func titlesOf(policies []string) []string {
	list := make([]string, len(policies))
	for i, policy := range policies {
		list[i] = titles[policy]
	}
	return list
}

// chosenParts parses a list of parts; empty is all of them.
func chosenParts(list string) ([]string, error) {
	if list == "" {
		return partNames(), nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(partNames(), name) {
			return nil, fmt.Errorf("--parts: must be some of %s, is %q", strings.Join(partNames(), ", "), list)
		}
	}
	return names, nil
}
