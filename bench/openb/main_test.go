// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestTheCommandPrintsEachSeedAndTheMeanAndWritesALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	var out bytes.Buffer
	if err := run([]string{"--nodes", tinyNodes, "--trace", tinyTrace, "--seeds", "2", "--bound", "--log", path}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"seed 42: ", "seed 43: ", "at 95 %: ", "at 100 %: ", "at 130 %: ", "mean of 2: ", "bound at 100 %: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w := tiny(t)
	if got, want := strings.Count(string(log), "\n"), len(w.arrivals(42).pods)+len(w.arrivals(43).pods); got != want {
		t.Errorf("the log has %d lines for %d arrivals", got, want)
	}
}

func TestALogLineHasNameNodeGPUsAndPercent(t *testing.T) {
	var out bytes.Buffer
	dropped := newRecord(&dataset.Pod{Name: "b"}, &placement.Place{}, func(name string) string { return name })
	if err := writeLog(&out, []record{{Pod: "a", Node: "n", GPUs: []int{1, 3}, Percent: 100}, dropped}); err != nil {
		t.Fatal(err)
	}
	want := `{"pod":"a","node":"n","gpus":[1,3],"percent":100}` + "\n" + `{"pod":"b","node":"","gpus":[],"percent":0}` + "\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}

func TestTheCommandReplaysDepartures(t *testing.T) {
	var out bytes.Buffer
	err := run([]string{"--nodes", tinyNodes, "--trace", untimed, "--durations", tinyTrace, "--departures", "--load", "0.5", "--jobs", "500", "--policy", "bestfit"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "over time; waits: mean") {
		t.Errorf("got %s", &out)
	}
}

func TestAnErrorNamesTheFlag(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no nodes":              {nil, "--nodes"},
		"no trace":              {[]string{"--nodes", tinyNodes}, "--trace"},
		"nodes that are absent": {[]string{"--nodes", "absent.csv", "--trace", tinyTrace}, "--nodes: open absent.csv"},
		"an unknown policy":     {[]string{"--policy", "luck"}, "--policy: must be one of ours"},
		"unknown ties":          {[]string{"--ties", "luck"}, "--ties"},
		"ties of ours by lot":   {[]string{"--ties", "random"}, "--ties"},
		"an unknown mix":        {[]string{"--mix", "luck"}, "--mix"},
		"an unknown parameter":  {[]string{"--without", "Luck"}, "--without"},
		"no parameter of FGD":   {[]string{"--policy", "fgd", "--without", "Worth"}, "--without"},
		"no seed":               {[]string{"--seeds", "0"}, "--seeds"},
		"no load":               {[]string{"--load", "0"}, "--load"},
		"no jobs":               {[]string{"--jobs", "0"}, "--jobs"},
		"no data":               {[]string{"--report", "docs"}, "--data"},
		"data without a trace":  {[]string{"--report", "docs", "--data", t.TempDir()}, "--data"},
		"an unknown part":       {[]string{"--report", "docs", "--data", "testdata", "--parts", "luck"}, "--parts"},
		"a log of departures":   {[]string{"--nodes", tinyNodes, "--trace", tinyTrace, "--departures", "--log", "x"}, "--log"},
		"a log in no folder":    {[]string{"--nodes", tinyNodes, "--trace", tinyTrace, "--log", "absent/x"}, "--log"},
		"no durations":          {[]string{"--nodes", tinyNodes, "--trace", untimed, "--departures"}, "--departures"},
		"an argument":           {[]string{"luck"}, "luck"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(test.args, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
