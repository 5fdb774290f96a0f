// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

const measured = `{"Nodes": 10000, "Pods": 100000, "Gangs": 1000, "Shapes": 50,
	"Rounds": [
		{"Without": {"PerSecond": 1000, "PerCPUSecond": 2000}, "With": {"PerSecond": 800, "PerCPUSecond": 1820}, "Attempts": 12.34},
		{"Without": {"PerSecond": 2000, "PerCPUSecond": 2000}, "With": {"PerSecond": 1900, "PerCPUSecond": 1860}, "Attempts": 10},
		{"Without": {"PerSecond": 1000, "PerCPUSecond": 2000}, "With": {"PerSecond": 950, "PerCPUSecond": 1840}, "Attempts": 10}],
	"Events": [{"Name": "Pod added", "P50": 7561, "P99": 58196}], "RestCores": 0.004, "ChurnCores": 0.11, "ChurnRate": 50, "LiveMiB": 1024, "PeakMiB": 1536}`

func TestTheReportComparesRoundByRound(t *testing.T) {
	t.Parallel()
	r, err := parseResults([]byte(measured))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"10000 nodes, 100000 Pods that run, 1000 gangs of 50 shapes", "median ratio 0.95, by CPU time of the scheduling cycles 0.92",
		"| 1 | 1000 | 800 | 0.80 | 0.91 | 12.3 |\n", "| Pod added | 7.6 | 58.2 |\n", "0.4 % of a core if nothing happens, and 11.0 % if 50 small Pods", "1.00 GiB in use", "1.50 GiB at most",
	} {
		if report := r.report(); !strings.Contains(report, want) {
			t.Errorf("%q is missing in\n%s", want, report)
		}
	}
}

func TestMissingResultsAreAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{}", `{"Rounds": [{}]}`} {
		if _, err := parseResults([]byte(text)); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}

func TestTheCostOfTheJournalIsComparedTurnByTurn(t *testing.T) {
	t.Parallel()
	r, err := parseJournalResults([]byte(`{"Nodes": 10, "Pods": 100, "Turns": [
		{"Off": {"Microseconds": 100, "CPUMicroseconds": 50, "ProcessMicroseconds": 80, "AllocatedBytes": 1000}, "On": {"Microseconds": 102, "CPUMicroseconds": 51, "ProcessMicroseconds": 84, "AllocatedBytes": 1100}},
		{"Off": {"Microseconds": 200, "CPUMicroseconds": 60, "ProcessMicroseconds": 90, "AllocatedBytes": 1000}, "On": {"Microseconds": 204, "CPUMicroseconds": 60, "ProcessMicroseconds": 90, "AllocatedBytes": 1100}}],
		"BytesPerPod": 1400, "CheckpointBytes": 13000000, "Dropped": 0, "PauseMilliseconds": 12, "CheckpointMilliseconds": 300}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"10 nodes, 100 Pods that run; 2 turns", "| time, µs | 200 | 204 | 1.020 | 1.020 to 1.020 |", "| CPU time of the scheduling cycles, µs | 60 | 60 | 1.020 | 1.000 to 1.020 |",
		"13.0 MB; it is taken in 12 ms and costs 300 ms",
	} {
		if report := r.report(); !strings.Contains(report, want) {
			t.Errorf("%q is missing in\n%s", want, report)
		}
	}
	for _, text := range []string{"", "{}", `{"Turns": [{}]}`} {
		if _, err := parseJournalResults([]byte(text)); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--part=0"}, {"x"}, {"--nodes=7"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is no error", args)
		}
	}
	if o, err := parse([]string{"--part=10"}); err != nil || o.part != 10 {
		t.Errorf("got %+v, %v", o, err)
	}
}
