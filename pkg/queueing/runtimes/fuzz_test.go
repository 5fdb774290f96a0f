// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimes

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzHistory reads any text as a History that was kept. What is accepted can be asked and added
// to, gives estimates that are durations, and survives being written and read again.
func FuzzHistory(f *testing.F) {
	learned := NewHistory()
	for i := range 20 {
		learned.Add(Task{Namespace: "vision", Name: "train-7", GPUs: 8, Limit: time.Hour}, time.Duration(i+1)*time.Minute)
	}
	text, err := json.Marshal(learned)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, []byte(nil))
	f.Add([]byte(`{"all":{"smallest":1,"counts":[400,400,1],"used":18446744073709551615}}`), []byte(nil))
	f.Add([]byte(`{"all":{"smallest":1e-323,"counts":[9]},"limits":{"smallest":1.7e308,"counts":[0,9]}}`), []byte(nil))
	f.Add([]byte(`null`), []byte(nil))
	f.Fuzz(func(t *testing.T, data []byte, edits []byte) {
		data = fuzzjson.Edit(data, edits)
		history := &History{}
		var err error
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(data), func() { err = json.Unmarshal(data, history) })
		if err != nil {
			return
		}
		if history.groups == nil {
			return // it was "null", which leaves the History as it was
		}
		checkHistory(t, history)
		written, err := json.Marshal(history)
		if err != nil {
			t.Fatalf("%q can't be written: %v", data, err)
		}
		again := &History{}
		if err := json.Unmarshal(written, again); err != nil {
			t.Fatalf("%q became %q: %v", data, written, err)
		}
		if twice, err := json.Marshal(again); err != nil || string(twice) != string(written) {
			t.Errorf("%q became %q and then %q, %v", data, written, twice, err)
		}
	})
}

// checkHistory asks a History and adds to it.
func checkHistory(t *testing.T, history *History) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for _, task := range []Task{{}, {Namespace: "vision", Name: "train-1", GPUs: 8}, {Namespace: "vision", Name: "train-1", GPUs: 8, Limit: time.Hour}, {GPUs: 1e300}} {
		estimate := history.Estimate(task)
		for _, elapsed := range []time.Duration{0, time.Second, 1000 * time.Hour} {
			median, longest := estimate.Remaining(elapsed)
			if median < 0 || longest < 0 {
				t.Errorf("after %v a task has %v left, at most %v", elapsed, median, longest)
			}
			if drawn := estimate.Draw(random, elapsed); drawn < 0 {
				t.Errorf("after %v a run time of %v is drawn", elapsed, drawn)
			}
			if planned := estimate.Planned(elapsed); planned < 0 {
				t.Errorf("after %v a run time of %v is planned", elapsed, planned)
			}
		}
		history.Add(task, time.Minute)
	}
	if jobs := history.Jobs(); !(jobs >= 0) {
		t.Errorf("%v jobs count", jobs)
	}
}

// FuzzStem reads any name of a job. A stem is its own stem, and not longer than the name.
func FuzzStem(f *testing.F) {
	for _, name := range []string{"train-7", "run-2026-11-21-a1b2c3d4e5", "---", "", "gpt2-é", "job-0-1-2-3"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		stem := Stem(name)
		if again := Stem(stem); again != stem {
			t.Errorf("%q has the stem %q, which has the stem %q", name, stem, again)
		}
		if len(stem) > len(name)+1 {
			t.Errorf("%q has the longer stem %q", name, stem)
		}
	})
}
