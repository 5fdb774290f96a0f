// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

var start = time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)

// job returns a job that was submitted some minutes after the start.
func job(key, queue string, priority int32, minutes int, gpus float64, bound time.Duration) queueing.Job {
	return queueing.Job{
		Key: key, Queue: queue, Priority: priority, Submitted: start.Add(time.Duration(minutes) * time.Minute), GPUs: gpus,
		Runtime: queueing.Runtime{Bound: bound},
	}
}

// keys returns the keys of the jobs in their order.
func keys(o queueing.Options, jobs []queueing.Job, factors map[string]float64) string {
	var list []string
	for _, ranked := range o.Order(jobs, factors) {
		list = append(list, jobs[ranked.Index].Key)
	}
	return strings.Join(list, " ")
}

func TestOrder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		policy  queueing.Policy
		factors map[string]float64
		jobs    []queueing.Job
		want    string
	}{
		"without queues, fifo is priority, then submission, then the key": {
			policy: queueing.FIFO,
			jobs:   []queueing.Job{job("d", "", 0, 2, 1, 0), job("c", "", 0, 1, 1, 0), job("b", "", 0, 1, 1, 0), job("a", "", 5, 9, 1, 0)},
			want:   "a b c d",
		},
		"priority takes the turns of its own queue only": {
			policy: queueing.FIFO,
			jobs: []queueing.Job{
				job("x1", "x", 0, 1, 1, 0), job("y1", "y", 0, 2, 1, 0), job("x2", "x", 0, 3, 1, 0), job("x3", "x", 1000, 4, 1, 0),
			},
			want: "x3 y1 x1 x2",
		},
		"short jobs go first, though not for ever": {
			policy: queueing.Deadline,
			jobs: []queueing.Job{
				job("long", "", 0, 0, 1, 24*time.Hour), job("short", "", 0, 60, 1, time.Hour), job("late", "", 0, 60*24*40, 1, time.Hour),
			},
			want: "short long late",
		},
		"a large gang is as urgent as its members would be for their time": {
			policy: queueing.Deadline,
			jobs:   []queueing.Job{job("one", "", 0, 0, 1, 8*time.Hour), job("gang", "", 0, 60, 16, 8*time.Hour)},
			want:   "gang one",
		},
		"a share of a GPU is not more patient than a whole one": {
			policy: queueing.Deadline,
			jobs:   []queueing.Job{job("whole", "", 0, 1, 1, time.Hour), job("share", "", 0, 0, 0.1, time.Hour)},
			want:   "share whole",
		},
		"a queue that had less than its due goes first": {
			policy: queueing.Deadline, factors: map[string]float64{"poor": 0.5, "rich": 2},
			jobs: []queueing.Job{job("r", "rich", 0, 0, 1, time.Hour), job("p", "poor", 0, 60, 1, time.Hour)},
			want: "p r",
		},
		"fair share looks at nothing else between queues": {
			policy: queueing.FairShare, factors: map[string]float64{"poor": 0.99, "rich": 1},
			jobs: []queueing.Job{job("r", "rich", 0, 0, 1, time.Minute), job("p", "poor", 0, 60*24*30, 1, time.Hour)},
			want: "p r",
		},
		"slurm's factors add up": {
			policy: queueing.Multifactor, factors: map[string]float64{"poor": 0, "rich": 3},
			jobs: []queueing.Job{job("r", "rich", 0, 0, 1, 0), job("p", "poor", 0, 60*24*5, 1, 0), job("late", "poor", 0, 60*24*8, 1, 0)},
			want: "p r late",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := keys(queueing.Options{Policy: test.policy}, test.jobs, test.factors); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// randomJobs returns jobs in a few queues.
func randomJobs(random *rand.Rand, count int) []queueing.Job {
	jobs := make([]queueing.Job, count)
	for i := range jobs {
		jobs[i] = job(fmt.Sprint(i), fmt.Sprint(random.IntN(5)), int32(random.IntN(3)), random.IntN(10000), float64(int(1)<<random.IntN(5)), time.Duration(random.IntN(1000))*time.Minute)
	}
	return jobs
}

func TestTheOrderDoesNotDependOnTheInputs(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		jobs := randomJobs(random, 100)
		want := keys(queueing.Options{}, jobs, nil)
		random.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
		if got := keys(queueing.Options{}, jobs, nil); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}

func TestPrioritiesMoveNothingBetweenQueues(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(2, 2))
	queues := func(jobs []queueing.Job) (list []string) {
		for _, ranked := range (queueing.Options{}).Order(jobs, nil) {
			list = append(list, jobs[ranked.Index].Queue)
		}
		return list
	}
	for range 50 {
		jobs := randomJobs(random, 100)
		before := queues(jobs)
		for i := range jobs {
			jobs[i].Priority = int32(random.IntN(1000))
		}
		if after := queues(jobs); !slices.Equal(before, after) {
			t.Fatalf("the turns of the queues were %v, with other priorities they are %v", before, after)
		}
	}
}

func TestNoJobOvertakesThatIsSubmittedTooLongAfterAnother(t *testing.T) {
	t.Parallel()
	for _, o := range []queueing.Options{{}, {MaxOvertake: 24 * time.Hour}} {
		bound := cmp.Or(o.MaxOvertake, queueing.DefaultMaxOvertake)
		first := job("first", "rich", 0, 0, 1, 365*24*time.Hour)
		last := job("last", "poor", 0, 0, 1, time.Second)
		last.Submitted = first.Submitted.Add(bound)
		factors := map[string]float64{"rich": 1000, "poor": 0}
		if got := keys(o, []queueing.Job{last, first}, factors); got != "first last" {
			t.Errorf("submitted %v later: %s", bound, got)
		}
		last.Submitted = last.Submitted.Add(-3 * time.Hour)
		if got := keys(o, []queueing.Job{last, first}, factors); got != "last first" {
			t.Errorf("submitted three hours sooner: %s", got)
		}
	}
}

func TestRuntimes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		runtime                    queueing.Runtime
		longest, typical, expected time.Duration
	}{
		"nothing is known":          {queueing.Runtime{}, 0, 0, 0},
		"a limit":                   {queueing.Runtime{Limit: time.Hour}, time.Hour, time.Hour, time.Hour},
		"a prediction":              {queueing.Runtime{Likely: time.Minute, Bound: 100 * time.Minute, Predicted: true}, 100 * time.Minute, 10 * time.Minute, time.Minute},
		"a limit below the bound":   {queueing.Runtime{Limit: time.Minute, Likely: time.Minute, Bound: time.Hour}, time.Minute, time.Minute, time.Minute},
		"a limit that few ever use": {queueing.Runtime{Limit: 24 * time.Hour, Likely: time.Hour, Bound: 4 * time.Hour}, 4 * time.Hour, 2 * time.Hour, time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := test.runtime
			if r.Longest() != test.longest || r.Typical() != test.typical || r.Expected() != test.expected {
				t.Errorf("got %v, %v, %v", r.Longest(), r.Typical(), r.Expected())
			}
		})
	}
}

func TestPoliciesAreParsed(t *testing.T) {
	t.Parallel()
	for _, name := range queueing.Policies() {
		if got, err := queueing.ParsePolicy(name); err != nil || string(got) != name {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
	if got, err := queueing.ParsePolicy(""); err != nil || got != queueing.Deadline {
		t.Errorf("the default: got %s, %v", got, err)
	}
	if _, err := queueing.ParsePolicy("lottery"); err == nil || !strings.Contains(err.Error(), "must be one of deadline, ") {
		t.Errorf("an unknown policy: got %v", err)
	}
}

func BenchmarkOrder10000(b *testing.B) {
	jobs := randomJobs(rand.New(rand.NewPCG(3, 3)), 10_000)
	for b.Loop() {
		queueing.Options{}.Order(jobs, nil)
	}
}
