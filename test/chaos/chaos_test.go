// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/test/chaos/campaign"
	"falldio.github.io/gpu-controller/test/programs"
)

// TestThreeMinutesOfFaults runs a short campaign, with a seed that never changes.
func TestThreeMinutesOfFaults(t *testing.T) {
	if err := programs.Build(programs.Ours()); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o := &options{seed: 7, duration: 100 * time.Second, flood: 500}
	result, err := campaign.Run(t.Context(), campaign.Options{
		Seed: o.seed, Duration: o.duration, Flood: o.flood, Programs: filepath.Join(programs.Root(), "bin"), Dir: filepath.Join(t.TempDir(), "campaign"), Command: command(o), Out: &out,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	show(result, &out)
	t.Log(out.String())
	if len(result.Violations) > 0 {
		t.Errorf("%d violations", len(result.Violations))
	}
	const fewest = 50
	if result.Tasks < fewest || len(result.Faults) == 0 {
		t.Errorf("there were %d tasks and these faults: %v; that proves nothing", result.Tasks, result.Faults)
	}
	// What was kept says the same as what was seen.
	var again bytes.Buffer
	if err := checkFile(result.HistoryPath, &again); err != nil || !strings.Contains(again.String(), "no violations") {
		t.Errorf("the history that was kept: %v\n%s", err, &again)
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"--seed=7", "--duration=3m"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := command(o), "go run ./test/chaos --seed=7 --duration=3m0s --flood=2700"; got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
	if o, err = parse([]string{"--duration=1h"}); err != nil || o.flood != 10000 {
		t.Errorf("an hour has %d fuzzed objects, error %v", o.flood, err)
	}
	if _, err := parse([]string{"10m"}); err == nil {
		t.Error("an argument that is no flag is accepted")
	}
}
