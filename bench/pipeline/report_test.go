// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/bench/document"
)

// measured is a record of 100 gangs of 20 Pods, a fifth of the full scale.
func measured(system string, round int, seconds float64) record {
	return record{
		System: system, Kind: "500×20", Gangs: 100, Size: 20, Round: round,
		outcome: outcome{Seconds: seconds, Told: seconds + 1, Latencies: []float64{seconds}, BindLatencies: []float64{seconds}},
		usage: usage{
			Window: 2 * seconds, Puts: 8300, Others: seconds, CPU: map[string]float64{"etcd": seconds, "kube-apiserver": 3 * seconds},
			Writes: map[string]int{"gputasks POST": 100, "gputasks/status PUT": 200, "pods POST": 2000},
			Events: map[string]int{"Pod": 2000},
		},
	}
}

var twoRounds = results{
	measured(floor, 0, 10), measured(ours, 0, 20), measured(bare, 0, 25),
	measured(floor, 1, 10), measured(ours, 1, 10), measured(bare, 1, 20),
	measured(floor, 2, 10),
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	t.Parallel()
	k := kinds[0]
	for name, c := range map[string]struct {
		got, want []float64
	}{
		"E":                {twoRounds.ratios(floor, ours, k, seconds), []float64{0.5, 1}},
		"R":                {twoRounds.ratios(ours, bare, k, seconds), []float64{0.8, 0.5}},
		"not of the round": {twoRounds[:1].ratios(floor, ours, k, seconds), nil},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestIdleWorkIsLeftOut(t *testing.T) {
	t.Parallel()
	r := measured(ours, 0, 10)
	r.Idle = map[string]float64{"etcd": 0.5}
	if got := cpuPerPod(&r); got != 20 {
		t.Errorf("%v ms in all, want 20", got)
	}
	if got := busyPerPod(&r); got != 15 {
		t.Errorf("%v ms without idle work, want 15", got)
	}
}

func TestWritesAreThoseOfThePodsOrOfTheGPUTasks(t *testing.T) {
	t.Parallel()
	r := measured(ours, 0, 10)
	if got := writesPerTask(&r); got != 3 {
		t.Errorf("%v writes per GPUTask, want 3", got)
	}
	if got := writesPerPod(&r); got != 4 {
		t.Errorf("%v writes per Pod, want 4", got)
	}
}

func TestOtherScalesAndDisturbedMeasurementsDoNotCount(t *testing.T) {
	t.Parallel()
	if got := resultsOf(twoRounds, 0.1, 0.5); len(got) != 0 {
		t.Errorf("%d records of another scale count", len(got))
	}
	if got := resultsOf(twoRounds, 0.2, 0.4); len(got) != 0 {
		t.Errorf("%d disturbed records count", len(got))
	}
	if got := resultsOf(twoRounds, 0.2, 0.5); len(got) != len(twoRounds) {
		t.Errorf("%d of %d records count", len(got), len(twoRounds))
	}
}

func TestAReportReplacesItsPart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, document.Name)
	if err := os.WriteFile(path, []byte("# Title\n"+reportPart.Begin()+reportPart.End()+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	slow := measured(ours, 0, 0.75)
	slow.Rate = 100
	o := &options{nodes: 1000, amount: "0.5", scale: 0.2, kinds: kinds}
	if err := writeReport(dir, append(twoRounds[:len(twoRounds):len(twoRounds)], slow), o); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Title", "after", plotFile, "100×20, 4×500, 2000×1", "3 rounds", "0.75 (0.50–1.00)",
		"| 500×20 | 4.15 | 4.15 | 4.15 | 4.00 | 1.00 | 3.00 |",
		"| 500×20, GPUTasks, gpu-scheduler | 100 | 1 | 0.75 |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if picture, err := os.ReadFile(filepath.Join(dir, plotFile)); err != nil || !bytes.Contains(picture, []byte("<svg")) {
		t.Errorf("the plot: %v", err)
	}
}
