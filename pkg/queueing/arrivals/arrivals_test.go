// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package arrivals_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing/arrivals"
	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
)

var now = time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)

// submission returns one that was made so long ago.
func submission(name string, ago time.Duration) arrivals.Submission {
	return arrivals.Submission{
		At: now.Add(-ago), Queue: "q", Percent: 800, Task: runtimes.Task{Namespace: "a", Name: name, GPUs: 8, Limit: time.Hour},
		Needs: []outlook.Need{{Members: 2, Percent: 400, Models: []string{"h100"}}},
	}
}

func TestTheSubmissionsOfEachDayComeAgain(t *testing.T) {
	t.Parallel()
	r := &arrivals.Record{}
	for name, ago := range map[string]time.Duration{"new": 0, "noon": 20 * time.Hour, "yesterday": 24*time.Hour - time.Minute, "before": 24 * time.Hour, "long-ago": 80 * time.Hour} {
		r.Add("a/"+name, submission(name, ago))
	}
	var got [][]string
	for _, day := range r.Again(now) {
		names := []string{}
		for _, one := range day {
			names = append(names, fmt.Sprintf("%s after %v", one.Task.Name, one.At.Sub(now)))
		}
		got = append(got, names)
	}
	want := [][]string{
		{"yesterday after 1m0s", "noon after 4h0m0s", "new after 24h0m0s"},
		{"before after 24h0m0s"},
		{}, // nothing came on that day
		{"long-ago after 16h0m0s"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestASubmissionCountsOnce(t *testing.T) {
	t.Parallel()
	r := &arrivals.Record{}
	for _, ago := range []time.Duration{time.Hour, time.Hour, time.Hour + 10*time.Second, time.Hour - 59*time.Second} {
		r.Add("a/train", submission("train-1", ago))
	}
	if r.Len() != 1 {
		t.Errorf("%d submissions, want 1", r.Len())
	}
	r.Add("a/train", submission("train-1", 30*time.Minute)) // another one under the same name
	r.Add("b/train", submission("train-1", time.Hour))
	if r.Len() != 3 {
		t.Errorf("%d submissions, want 3", r.Len())
	}
}

func TestARecordIsBounded(t *testing.T) {
	t.Parallel()
	r := &arrivals.Record{}
	r.Add("old", submission("old", 6*24*time.Hour))
	r.Add("older", submission("older", 7*24*time.Hour))
	r.Add("new", submission("new", 24*time.Hour))
	if r.Len() != 2 {
		t.Errorf("%d submissions, want those of the last five days", r.Len())
	}
	for i := range 20_000 {
		r.Add(fmt.Sprint(i), submission("many", 20_000*time.Second-time.Duration(i)*time.Second))
	}
	if r.Len() > 1<<14 || r.Len() < 15_000 {
		t.Errorf("%d submissions", r.Len())
	}
	list := r.Again(now)[0]
	if last := list[len(list)-1].At; !last.Equal(now.Add(24*time.Hour - time.Second)) {
		t.Errorf("the last one comes at %v", last)
	}
	r.Add("0", submission("many", 20_000*time.Second)) // forgotten, so that it counts again
}

func TestARecordSurvivesAsJSON(t *testing.T) {
	t.Parallel()
	r := &arrivals.Record{}
	for i := range 10 {
		r.Add(fmt.Sprint(i), submission(fmt.Sprintf("train-%d", i), time.Duration(i)*time.Hour))
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	again := &arrivals.Record{}
	if err := json.Unmarshal(data, again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r, again) {
		t.Errorf("got %+v, want %+v", again, r)
	}
	again.Add("3", submission("train-3", 3*time.Hour))
	again.Merge(r)
	if again.Len() != 10 {
		t.Errorf("%d submissions, want 10: all are known", again.Len())
	}
	if small := r.Clone(4); small.Len() != 4 || !reflect.DeepEqual(small.Again(now)[0], r.Again(now)[0][6:]) {
		t.Errorf("a small copy is %+v, want the last four", small.Again(now)[0])
	}
}

func TestABrokenRecordIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no JSON":           `[`,
		"no time":           `[{"percent":100}]`,
		"a negative amount": `[{"at":"2026-01-05T08:00:00Z","percent":-1}]`,
		"nobody":            `[{"at":"2026-01-05T08:00:00Z","needs":[{"Members":0}]}]`,
	} {
		r := &arrivals.Record{}
		r.Add("known", submission("known", 0))
		if err := json.Unmarshal([]byte(text), r); err == nil {
			t.Errorf("%s: it was accepted", name)
		}
		if r.Len() != 1 {
			t.Errorf("%s: what was known is lost", name)
		}
	}
}

func TestANamespaceWithManySubmissionsForgetsItsOwnFirst(t *testing.T) {
	t.Parallel()
	record, start := arrivals.Record{}, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	add := func(namespace string, count int, from time.Time) {
		for i := range count {
			record.Add(fmt.Sprint(namespace, from, i), arrivals.Submission{At: from.Add(time.Duration(i) * time.Second), Task: runtimes.Task{Namespace: namespace}})
		}
	}
	add("few", 100, start)
	add("many", 40_000, start.Add(time.Hour))
	if record.Len() > 1<<14 {
		t.Errorf("%d submissions are kept", record.Len())
	}
	kept := 0
	for _, day := range record.Again(start.Add(23 * time.Hour)) {
		for _, one := range day {
			if one.Task.Namespace == "few" {
				kept++
			}
		}
	}
	if kept != 100 {
		t.Errorf("%d of 100 submissions of another namespace are kept", kept)
	}
}

func TestALongListOfModelsIsCutOff(t *testing.T) {
	t.Parallel()
	record, now := arrivals.Record{}, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	record.Add("long", arrivals.Submission{At: now, Needs: []outlook.Need{{Members: 1, Percent: 100, Models: make([]string, 10_000)}}})
	days := record.Again(now.Add(time.Hour))
	if len(days) != 1 || len(days[0]) != 1 || len(days[0][0].Needs) != 1 || len(days[0][0].Needs[0].Models) > 100 {
		t.Errorf("kept is %v", days)
	}
}
