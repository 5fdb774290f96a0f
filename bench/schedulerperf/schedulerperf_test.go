// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/test/schedulerperf"
)

func TestATestCaseHasOurSize(t *testing.T) {
	t.Parallel()
	cases := []schedulerperf.Case{{"name": "Other"}, {"name": "Unschedulable", "workloads": []any{map[string]any{"name": "huge"}}}}
	got, err := workloadNamed("Unschedulable").sized(cases)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "initNodes: 500\n") || strings.Contains(string(text), "huge") {
		t.Errorf("got\n%s", text)
	}
	if _, err := workloadNamed("SchedulingBasic").sized(cases); err == nil {
		t.Error("a missing test case is no error")
	}
}

func TestThroughputIsRead(t *testing.T) {
	t.Parallel()
	got, err := parseThroughput([]byte(`{"dataItems": [
		{"data": {"Average": 1}, "labels": {"Metric": "other"}},
		{"data": {"Average": 312.5, "Perc50": 300}, "labels": {"Metric": "SchedulingThroughput"}}]}`))
	if err != nil || got != 312.5 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseThroughput([]byte(`{}`)); err == nil {
		t.Error("no throughput is no error")
	}
}

func TestTheTableComparesRoundByRound(t *testing.T) {
	t.Parallel()
	r := results{}
	for _, pair := range [][2]float64{{100, 90}, {200, 210}, {300, 300}} {
		r.add("x", schedulerperf.Stock, measurement{throughput: pair[0], cpu: 3})
		r.add("x", schedulerperf.Ours, measurement{throughput: pair[1], cpu: 4})
	}
	if got, want := r.table([]string{"x"}).String(), "| x | 200 | 210 | 1.00 | 0.90 | 1.05 | 0.75 |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--rounds=0"}, {"--workloads=x"}, {"x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is no error", args)
		}
	}
	if o, err := parse(nil); err != nil || !slices.Equal(o.only, workloadNames()) {
		t.Errorf("got %+v, %v", o, err)
	}
}
