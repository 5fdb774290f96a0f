// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/bench/document"
	"falldio.github.io/gpu-controller/bench/queue/trace"
)

// synthetic writes a trace of three busy days: jobs of all sizes, of three teams.
func synthetic(t *testing.T, jobs int) string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	b.WriteString("timestamp,duration,num_gpus,gpu_time,cluster\n")
	at := time.Date(2017, 9, 4, 1, 0, 0, 0, time.UTC)
	for range jobs {
		at = at.Add(time.Duration(random.ExpFloat64() * float64(72*time.Hour) / float64(jobs)))
		gpus := []int{1, 1, 1, 1, 2, 4, 8, 8, 12, 16}[random.IntN(10)]
		fmt.Fprintf(&b, "%s,%.1f,%d,0,team%d\n", at.Format(time.DateTime), 60*math.Exp(3+1.5*random.NormFloat64()), gpus, random.IntN(3))
	}
	path := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// replayed returns the log of a replay of all policies.
func replayed(t *testing.T, path string, more ...string) (records []record, out string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log.jsonl")
	var printed bytes.Buffer
	args := []string{"--trace", path, "--nodes", "3", "--policy", strings.Join(names(), ","), "--log", log, "--forecasts", "2"}
	if err := run(append(args, more...), &printed); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records, printed.String()
}

func parsed(t *testing.T, stamp string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestNoCardIsUsedTwiceAndEveryJobStartsOnce(t *testing.T) {
	t.Parallel()
	const jobs = 300
	path := synthetic(t, jobs)
	source, err := trace.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	durations := map[int]time.Duration{}
	for _, j := range source.Jobs {
		durations[j.ID] = j.Duration
	}
	for _, estimates := range estimates() {
		t.Run(estimates, func(t *testing.T) {
			t.Parallel()
			records, _ := replayed(t, path, "--estimates", estimates)
			freeFrom, seen := map[string]time.Time{}, map[string]int{}
			for _, r := range records {
				from, until, held := parsed(t, r.Started), parsed(t, r.Ends), 0
				seen[r.Policy]++
				for _, p := range r.Places {
					held += len(p.GPUs)
					for _, card := range p.GPUs {
						key := fmt.Sprintf("%s %s %d", r.Policy, p.Node, card)
						if from.Before(freeFrom[key]) {
							t.Fatalf("%s is used twice, the second time by job %d", key, r.Job)
						}
						freeFrom[key] = until
					}
				}
				if held != r.GPUs || from.Before(parsed(t, r.Submitted)) || until.Sub(from) != durations[r.Job] {
					t.Errorf("got %+v", r)
				}
			}
			for _, policy := range names() {
				if seen[policy] != jobs {
					t.Errorf("%s: %d jobs started, want %d", policy, seen[policy], jobs)
				}
			}
		})
	}
}

func TestASeedGivesTheSameReplay(t *testing.T) {
	t.Parallel()
	path := synthetic(t, 200)
	first, _ := replayed(t, path, "--seeds", "2")
	second, out := replayed(t, path, "--seeds", "2")
	if len(first) != 2*200*len(names()) {
		t.Errorf("the log has %d lines", len(first))
	}
	for i := range first {
		a, err := json.Marshal(first[i])
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(second[i])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Fatalf("line %d is %s, then %s", i, a, b)
		}
	}
	for _, want := range []string{"deadline", "oracle", "mean of 2: "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestReservationsWithExactDurationsAreKeptUnlessSomebodyGoesFirst(t *testing.T) {
	t.Parallel()
	source, err := trace.Read(synthetic(t, 300))
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range []string{"easy", "conservative", ours} {
		e, err := find(policy, 8)
		if err != nil {
			t.Fatal(err)
		}
		o := options{nodes: 3, estimates: exact}
		r, err := o.replay(e, source, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		for reason, count := range r.moved {
			if reason != "goes first" || policy != ours {
				t.Errorf("%s: %d reservations moved because %s", policy, count, reason)
			}
		}
		if r.reserved == 0 {
			t.Errorf("%s: nothing was reserved", policy)
		}
	}
}

func TestKeptReservationsGiveWayToNobody(t *testing.T) {
	t.Parallel()
	source, err := trace.Read(synthetic(t, 300))
	if err != nil {
		t.Fatal(err)
	}
	e, err := find(ours, 8)
	if err != nil {
		t.Fatal(err)
	}
	moved := map[bool]float64{}
	for _, keep := range []bool{false, true} {
		e.keep = keep
		o := options{nodes: 3, estimates: exact}
		r, err := o.replay(e, source, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		moved[keep] = r.later
	}
	if moved[true] > 0 || moved[false] == 0 {
		t.Errorf("%.0f were made later when kept, else %.0f", moved[true], moved[false])
	}
}

func TestTheReportHasAllParts(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	document := filepath.Join(folder, document.Name)
	if err := os.WriteFile(document, []byte(reportPart.Begin()+reportPart.End()), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run([]string{"--trace", synthetic(t, 60), "--report", folder}, &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mean wait ÷ oracle", "| strict FIFO |", "| predicted |", "Start estimates", plotFile} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, plotFile)); err != nil {
		t.Error(err)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{}, {"--trace", "x", "--estimates", "guessed"}, {"--trace", "x", "--nodes", "0"}, {"--trace", "x", "--seeds", "0"}, {"--trace", "x", "y"}, {"--trace", "missing"},
		{"--trace", synthetic(t, 2), "--policy", "lottery"},
	} {
		if err := run(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

func TestTheLineIsTheProductsOrder(t *testing.T) {
	t.Parallel()
	source, err := trace.Read(synthetic(t, 100))
	if err != nil {
		t.Fatal(err)
	}
	e, err := find(ours, 8)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSystem(e, 1, exact, source, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.factors = map[string]float64{"team0": .5, "team1": 2}
	for i := range source.Jobs {
		j := newJob(source.Jobs[i], s.cluster)
		s.declare(j)
		j.item = j.inQueue()
		j.turn = s.turnOf(j)
		s.line.insert(j)
	}
	before := slices.Clone(s.line.jobs)
	s.line.reorder(s.options, s.factors)
	if !slices.Equal(before, s.line.jobs) {
		t.Error("jobs that are inserted one by one are in another order than when all are sorted")
	}
}
