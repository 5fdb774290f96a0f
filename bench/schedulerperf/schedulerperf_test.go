// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const upstream = `
- name: Other
- name: Unschedulable
  workloadTemplate:
  - opcode: churn
    templatePaths: [../templates/pod.yaml]
    interval: 200
  workloads:
  - {name: huge, params: {initNodes: 5000}}
`

func TestATestCaseHasOurSizeAndAbsolutePaths(t *testing.T) {
	t.Parallel()
	text, err := workloadNamed("Unschedulable").testCase([]byte(upstream), "/k/misc", "/tmp/config")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"initNodes: 500\n", "/k/templates/pod.yaml", "schedulerConfigPath: /tmp/config", "NominatedNodeNameForExpectation: false"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "Other") || strings.Contains(string(text), "5000") {
		t.Errorf("there is too much in\n%s", text)
	}
	if _, err := workloadNamed("SchedulingBasic").testCase([]byte(upstream), "/k/misc", ""); err == nil {
		t.Error("a missing test case is no error")
	}
}

func TestOurProfileIsThatOfOrdinaryPods(t *testing.T) {
	t.Parallel()
	text, err := schedulerConfig()
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Profiles []struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"profiles"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Profiles) != 1 || config.Profiles[0].SchedulerName != "default-scheduler" {
		t.Errorf("profiles %+v", config.Profiles)
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
		r.add("x", stock, measurement{throughput: pair[0], cpu: 3})
		r.add("x", ours, measurement{throughput: pair[1], cpu: 4})
	}
	if got, want := r.table([]string{"x"}).String(), "| x | 200 | 210 | 1.00 | 0.90 | 1.05 | 0.75 |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--kubernetes=/k", "--rounds=0"}, {"--kubernetes=/k", "--workloads=x"}, {"--kubernetes=/k", "x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is no error", args)
		}
	}
	if o, err := parse([]string{"--kubernetes=/k"}); err != nil || !slices.Equal(o.only, workloadNames()) {
		t.Errorf("got %+v, %v", o, err)
	}
}
