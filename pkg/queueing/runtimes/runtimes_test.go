// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimes_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
)

func TestStem(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"train-resnet-7f9c4-12": "train-resnet", "train-resnet-1": "train-resnet", "run12": "run", "eval": "eval", "2026-01-05": "", "": "", "a_b.c": "a-b-c",
	} {
		if got := runtimes.Stem(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// learned returns a history of jobs that each ran for so many minutes.
func learned(task runtimes.Task, minutes ...int) *runtimes.History {
	h := runtimes.NewHistory()
	for _, m := range minutes {
		h.Add(task, time.Duration(m)*time.Minute)
	}
	return h
}

// within reports whether a duration is within a bucket of the wanted one.
func within(got, want time.Duration) bool {
	return got.Seconds() >= want.Seconds()/1.25 && got.Seconds() <= want.Seconds()*1.25
}

func TestQuantilesOfTheMostSpecificGroup(t *testing.T) {
	t.Parallel()
	h := runtimes.NewHistory()
	for i := range 100 {
		h.Add(runtimes.Task{Namespace: "a", Name: fmt.Sprintf("short-%d", i), GPUs: 1}, 10*time.Minute)
		h.Add(runtimes.Task{Namespace: "a", Name: fmt.Sprintf("long-%d", i), GPUs: 1}, 10*time.Hour)
		h.Add(runtimes.Task{Namespace: "b", Name: "x", GPUs: 8}, 100*time.Hour)
	}
	tests := map[string]struct {
		task          runtimes.Task
		likely, bound time.Duration
	}{
		"the same name but for a number":         {runtimes.Task{Namespace: "a", Name: "short-777", GPUs: 1}, 10 * time.Minute, 10 * time.Minute},
		"another name, the same size":            {runtimes.Task{Namespace: "a", Name: "other", GPUs: 1}, 12 * time.Minute, 10 * time.Hour},
		"another size, the same namespace":       {runtimes.Task{Namespace: "b", Name: "x", GPUs: 1}, 100 * time.Hour, 100 * time.Hour},
		"nothing alike: all jobs":                {runtimes.Task{Namespace: "c", Name: "x", GPUs: 1}, 10 * time.Hour, 100 * time.Hour},
		"a limit caps what others needed longer": {runtimes.Task{Namespace: "b", Name: "x", GPUs: 8, Limit: 3 * time.Hour}, 3 * time.Hour, 3 * time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := h.Estimate(test.task).Runtime()
			if !within(got.Likely, test.likely) || !within(got.Bound, test.bound) || got.Predicted != (test.task.Limit == 0) {
				t.Errorf("got %+v, want likely %v, bound %v", got, test.likely, test.bound)
			}
		})
	}
}

func TestFewJobsSayNothing(t *testing.T) {
	t.Parallel()
	h := learned(runtimes.Task{Namespace: "a"}, 1, 2, 3)
	if e := h.Estimate(runtimes.Task{Namespace: "a"}); !e.Unknown() || e.Runtime().Predicted {
		t.Errorf("got %+v", e.Runtime())
	}
	if got := h.Estimate(runtimes.Task{Limit: time.Hour}).Runtime(); got.Bound != time.Hour || got.Predicted {
		t.Errorf("with a limit: got %+v", got)
	}
}

func TestAFewJobsOfOtherNamespacesSayNothing(t *testing.T) {
	t.Parallel()
	h := runtimes.NewHistory()
	task := runtimes.Task{Namespace: "b", Name: "first", GPUs: 8}
	for i := range 101 {
		if e := h.Estimate(task); i < 64 && !e.Unknown() || i == 100 && e.Unknown() {
			t.Errorf("after %d jobs: got %+v", i, e.Runtime())
		}
		h.Add(runtimes.Task{Namespace: "a", Name: "debug", GPUs: 1}, time.Minute)
	}
}

func TestWhoHasOutlivedAllOthers(t *testing.T) {
	t.Parallel()
	h := learned(runtimes.Task{}, 1, 2, 3, 4, 5, 6, 7, 8)
	tests := map[string]struct {
		limit, elapsed time.Duration
		want           bool
	}{
		"it has just started":                  {0, 0, false},
		"some ran longer":                      {0, 6 * time.Minute, false},
		"none ran as long":                     {0, 24 * time.Hour, true},
		"none ran as long, but it has a limit": {48 * time.Hour, 24 * time.Hour, false},
	}
	for name, test := range tests {
		if got := h.Estimate(runtimes.Task{Limit: test.limit}).Outlived(test.elapsed); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if (runtimes.Estimate{}).Outlived(time.Hour) {
		t.Error("nothing is known, and it has outlived that")
	}
}

func TestADeclaredLimitIsCappedByWhatOthersUsedOfTheirs(t *testing.T) {
	t.Parallel()
	h := runtimes.NewHistory()
	week := runtimes.Task{Namespace: "lazy", Name: "train", GPUs: 1, Limit: 7 * 24 * time.Hour}
	for range 50 {
		h.Add(week, time.Hour)
	}
	if got := h.Estimate(week).Runtime(); got.Limit != week.Limit || !within(got.Bound, time.Hour) {
		t.Errorf("got %+v, want a bound of an hour", got)
	}
}

func TestTheLongerAJobHasRunTheLongerItWillRun(t *testing.T) {
	t.Parallel()
	h := learned(runtimes.Task{}, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
	e := h.Estimate(runtimes.Task{})
	random := rand.New(rand.NewPCG(1, 1))
	before := time.Duration(0)
	for _, elapsed := range []time.Duration{0, time.Minute, time.Hour, 5 * time.Hour, 8 * time.Hour, 100 * time.Hour} {
		likely := e.Quantile(0.5, elapsed)
		if likely <= elapsed || likely < before {
			t.Errorf("after %v: likely to run for %v in all, before for %v", elapsed, likely, before)
		}
		before = likely
		for range 100 {
			if drawn := e.Draw(random, elapsed); drawn <= elapsed {
				t.Fatalf("after %v: drew %v", elapsed, drawn)
			}
		}
	}
}

func TestAnExceededBoundIsExtendedByDoubling(t *testing.T) {
	t.Parallel()
	const least = 10 * time.Minute
	for elapsed, want := range map[time.Duration]time.Duration{
		0: time.Hour, 59 * time.Minute: time.Hour, time.Hour: 70 * time.Minute, 69 * time.Minute: 70 * time.Minute,
		70 * time.Minute: 90 * time.Minute, 90 * time.Minute: 130 * time.Minute,
	} {
		if got := runtimes.Extended(time.Hour, elapsed, least); got != want {
			t.Errorf("after %v: got %v, want %v", elapsed, got, want)
		}
	}
}

func TestThePlannedDurationMovesInSteps(t *testing.T) {
	t.Parallel()
	h := learned(runtimes.Task{}, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 600)
	e, steps, before := h.Estimate(runtimes.Task{}), 0, time.Duration(0)
	for elapsed := time.Duration(0); elapsed < 24*time.Hour; elapsed += 30 * time.Second {
		planned := e.Planned(elapsed)
		if planned <= elapsed {
			t.Fatalf("after %v: planned with %v", elapsed, planned)
		}
		if planned != before {
			steps++
		}
		before = planned
	}
	if steps < 3 || steps > 10 {
		t.Errorf("moved %d times", steps)
	}
	if got := runtimes.Exactly(time.Hour).Planned(59 * time.Minute); got != time.Hour {
		t.Errorf("a known duration: got %v", got)
	}
	if got := (runtimes.Estimate{}).Planned(time.Hour); got != 0 {
		t.Errorf("nothing known: got %v", got)
	}
}

func TestDrawsHaveTheFrequenciesOfTheHistory(t *testing.T) {
	t.Parallel()
	h := runtimes.NewHistory()
	for i := range 200 {
		ran := time.Minute
		if i%4 == 0 {
			ran = time.Hour
		}
		h.Add(runtimes.Task{}, ran)
	}
	e, random, long := h.Estimate(runtimes.Task{}), rand.New(rand.NewPCG(1, 1)), 0
	for range 4000 {
		if e.Draw(random, 0) > 10*time.Minute {
			long++
		}
	}
	if long < 850 || long > 1150 {
		t.Errorf("%d of 4000 draws are long, want about 1000", long)
	}
}

func TestAHistorySurvivesAsJSON(t *testing.T) {
	t.Parallel()
	h := learned(runtimes.Task{Namespace: "a", Limit: 10 * time.Hour}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	again := runtimes.NewHistory()
	if err := json.Unmarshal(data, again); err != nil {
		t.Fatal(err)
	}
	for _, task := range []runtimes.Task{{Namespace: "a"}, {Namespace: "a", Limit: time.Hour}} {
		if got, want := again.Estimate(task).Runtime(), h.Estimate(task).Runtime(); got != want || got.Bound == 0 {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestABrokenHistoryIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no JSON":           `{`,
		"no smallest value": `{"all":{"smallest":0}}`,
		"a smallest value in which no number can be counted": `{"all":{"smallest":1e-323,"counts":[9]}}`,
		"a smallest value that is no duration":               `{"all":{"smallest":1e300,"counts":[9]}}`,
		"a use that can't be counted on":                     `{"all":{"smallest":1,"used":18446744073709551615}}`,
		"a negative count":                                   `{"all":{"smallest":1,"counts":[3,-1]}}`,
		"a huge count":                                       `{"all":{"smallest":1,"counts":[1e30]}}`,
		"too many counts":                                    `{"all":{"smallest":1,"counts":[` + strings.Repeat("1,", 100) + `1]}}`,
	} {
		h := learned(runtimes.Task{Namespace: "a"}, 1, 2, 3, 4, 5, 6, 7, 8)
		if err := json.Unmarshal([]byte(text), h); err == nil {
			t.Errorf("%s: it was accepted", name)
		}
		if h.Estimate(runtimes.Task{Namespace: "a"}).Unknown() {
			t.Errorf("%s: what was known is lost", name)
		}
	}
}

func TestAWrongTotalIsMended(t *testing.T) {
	t.Parallel()
	h := runtimes.NewHistory()
	if err := json.Unmarshal([]byte(`{"all":{"smallest":1,"counts":[4,4],"total":1e9}}`), h); err != nil {
		t.Fatal(err)
	}
	if h.Jobs() != 8 {
		t.Errorf("%g jobs, want 8", h.Jobs())
	}
}

// lettered returns a history of jobs with one name each, the first one used first.
func lettered(names int) *runtimes.History {
	h := runtimes.NewHistory()
	for i := range names {
		for range 8 {
			h.Add(runtimes.Task{Namespace: "a", Name: name(i + 1), GPUs: 1}, time.Duration(1+i)*time.Minute)
		}
	}
	return h
}

func TestASmallerCopyHasTheGroupsThatWereUsedLast(t *testing.T) {
	t.Parallel()
	h := lettered(20)
	old := runtimes.Task{Namespace: "a", Name: name(1), GPUs: 1}
	h.Estimate(old) // it is used again
	all := h.Groups()
	for _, most := range []int{all + 1, all, 10, 1, 0} {
		if got := h.Clone(most).Groups(); got != min(most, all) {
			t.Errorf("a copy of at most %d groups has %d", most, got)
		}
	}
	small := h.Clone(10)
	for i, kept := range map[int]bool{1: true, 5: false, 20: true} {
		task := runtimes.Task{Namespace: "a", Name: name(i), GPUs: 1}
		if same := small.Estimate(task).Runtime() == h.Estimate(task).Runtime(); same != kept {
			t.Errorf("the copy has group %d: %t, want %t", i, same, kept)
		}
	}
	for range 100 {
		h.Add(old, time.Second)
	}
	if small.Estimate(old).Runtime() == h.Estimate(old).Runtime() {
		t.Error("the copy has learned as well")
	}
}

func TestTheOrderOfUseSurvives(t *testing.T) {
	t.Parallel()
	h := lettered(20)
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	again := runtimes.NewHistory()
	if err := json.Unmarshal(data, again); err != nil {
		t.Fatal(err)
	}
	small := again.Clone(5)
	last, first := runtimes.Task{Namespace: "a", Name: name(20), GPUs: 1}, runtimes.Task{Namespace: "a", Name: name(1), GPUs: 1}
	if small.Estimate(last).Runtime() != h.Estimate(last).Runtime() || small.Estimate(first).Runtime() == h.Estimate(first).Runtime() {
		t.Error("the groups that were used last are not those that were kept")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	h := runtimes.NewHistory()
	for i := range 30_000 {
		h.Add(runtimes.Task{Namespace: fmt.Sprintf("n%d", i%7), Name: name(i), GPUs: 1}, time.Minute)
	}
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 8192*200 {
		t.Errorf("%d bytes", len(data))
	}
	if h.Jobs() == 0 || h.Estimate(runtimes.Task{Namespace: "n1"}).Unknown() {
		t.Error("groups that are used all the time were forgotten")
	}
}

// name returns a name of letters, so that all stems differ.
func name(i int) string {
	text := []byte{}
	for ; i > 0; i /= 26 {
		text = append(text, byte('a'+i%26))
	}
	return string(text)
}

func TestAnEstimateIsRoughUnlessManyAlikeAreKnown(t *testing.T) {
	t.Parallel()
	hours := func(count int) []int { return slices.Repeat([]int{60}, count) }
	alike := runtimes.Task{Namespace: "a", Name: "train-1", GPUs: 8}
	limited := runtimes.Task{Namespace: "a", Name: "train-1", GPUs: 8, Limit: 2 * time.Hour}
	tests := map[string]struct {
		known *runtimes.History
		task  runtimes.Task
		want  bool
	}{
		"of few alike":                      {learned(alike, hours(26)...), alike, true},
		"of many alike":                     {learned(alike, hours(30)...), alike, false},
		"of many of its size":               {learned(alike, hours(30)...), runtimes.Task{Namespace: "a", Name: "eval", GPUs: 8}, false},
		"of many of another size":           {learned(alike, hours(100)...), runtimes.Task{Namespace: "a", Name: "eval", GPUs: 1}, true},
		"of many of other namespaces":       {learned(alike, hours(100)...), runtimes.Task{Namespace: "b", Name: "train", GPUs: 8}, true},
		"of few with its limit":             {learned(limited, hours(8)...), limited, true},
		"of many with its limit":            {learned(limited, hours(30)...), limited, false},
		"of a limit and nothing else":       {learned(alike), limited, false},
		"of nothing: that is known as such": {learned(alike), alike, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.known.Estimate(test.task).Rough(); got != test.want {
				t.Errorf("rough: %t, want %t", got, test.want)
			}
		})
	}
}
