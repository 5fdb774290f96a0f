// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"falldio.github.io/gpu-controller/bench/document"
)

// results are what the benchmark in scheduler/planner writes.
type results struct {
	Nodes, Pods, Gangs, Shapes int
	Rounds                     []round
	// RestCores is how many cores are used while gangs wait and nothing happens, ChurnCores while ChurnRate small Pods
	// per second come and go.
	RestCores, ChurnCores float64
	ChurnRate             int
	Events                []times
	LiveMiB, PeakMiB      float64
}

// round is how many small Pods got a place per second, without and with gangs that wait,
// and how many attempts were made for these per second.
type round struct {
	Without, With rate
	Attempts      float64
}

// rate is by time, and by the CPU time of the scheduling cycles.
type rate struct{ PerSecond, PerCPUSecond float64 }

// times are those of an event.
type times struct {
	Name     string
	P50, P99 time.Duration
}

// These configure the garbage collector as artifacts/scheduler/deployment.yaml does.
const (
	percent     = "50"
	memoryLimit = "1300MiB"
)

// measure runs a benchmark in a process of its own. The variable names the file for its results.
func measure[T any](ctx context.Context, o *options, test, variable string, parse func([]byte) (*T, error)) (*T, error) {
	dir, err := os.MkdirTemp("", "bench-schedulerscale-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "results.json")
	program, err := filepath.Abs(o.program)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, program, "-test.run=^"+test+"$", "-test.v", "-test.timeout=1h") //nolint:gosec // the user names it
	command.Env = append(os.Environ(), "GOGC="+percent, "GOMEMLIMIT="+memoryLimit, variable+"="+path, "SCHEDULERSCALE_PART="+strconv.Itoa(o.part))
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%w:\n%s", err, output.Bytes())
	}
	text, err := os.ReadFile(path) //nolint:gosec // a file of ours
	if err != nil {
		return nil, err
	}
	return parse(text)
}

func parseResults(text []byte) (*results, error) {
	measured := &results{}
	if err := json.Unmarshal(text, measured); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	if len(measured.Rounds) == 0 || len(measured.Events) == 0 {
		return nil, fmt.Errorf("results: there are none: %s", text)
	}
	return measured, nil
}

// report returns the results for the document.
func (r *results) report() string {
	throughput := &document.Table{Header: []string{"round", "no gang waits, Pods/s", "gangs wait, Pods/s", "with ÷ without", "by CPU time", "attempts for gangs per second"}}
	var ratios, byCPU []float64
	for i, one := range r.Rounds {
		ratios, byCPU = append(ratios, one.With.PerSecond/one.Without.PerSecond), append(byCPU, one.With.PerCPUSecond/one.Without.PerCPUSecond)
		throughput.Add(strconv.Itoa(i+1), fmt.Sprintf("%.0f", one.Without.PerSecond), fmt.Sprintf("%.0f", one.With.PerSecond),
			document.Hundredths(ratios[i]), document.Hundredths(byCPU[i]), fmt.Sprintf("%.1f", one.Attempts))
	}
	slices.Sort(ratios)
	slices.Sort(byCPU)
	events := &document.Table{Header: []string{"event", "p50, µs", "p99, µs"}}
	for _, one := range r.Events {
		events.Add(one.Name, microseconds(one.P50), microseconds(one.P99))
	}
	return fmt.Sprintf(`%d nodes, %d Pods that run, %d gangs of %d shapes that wait. Small Pods that got a place per second (median ratio %s, by CPU time of the scheduling cycles %s):

%s
Times of single events while the gangs wait:

%s
While gangs wait, the process uses %.1f %% of a core if nothing happens, and %.1f %% if %d small Pods per second get a place and as many end.

Memory: %.2f GiB in use after a garbage collection, %.2f GiB at most.
`, r.Nodes, r.Pods, r.Gangs, r.Shapes, document.Hundredths(ratios[len(ratios)/2]), document.Hundredths(byCPU[len(byCPU)/2]), throughput, events,
		100*r.RestCores, 100*r.ChurnCores, r.ChurnRate, r.LiveMiB/1024, r.PeakMiB/1024)
}

func microseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f", float64(d)/float64(time.Microsecond))
}
