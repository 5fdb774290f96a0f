// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Input is the present.
type Input struct {
	Nodes   []Node
	Running []Running
	// Waiting are the jobs that wait, in their order.
	Waiting []Waiting
	// Scenarios are what may come: each is a list of jobs, such as those that came on one of
	// the last days. The draws play one after the other. There need not be any.
	Scenarios [][]Coming
	Now       time.Time
	// Booked is how many waiting jobs have bookings: as many as in package backfill.
	Booked int
	// Draws is how often the future is played; Seed makes it repeatable.
	Draws int
	Seed  uint64
	// Only is the key of the only job whose estimate is asked for: the future is played until
	// it has started. The others then have none, or an estimate that is too early. Empty for
	// all.
	Only string
}

// Node is a node, with nothing running on it.
type Node struct {
	Model string
	// Apart is true if only Needs get them that name the model.
	Apart bool
	// Percent is what its working GPUs are, in percent of one GPU.
	Percent int
}

// Hold is what a running job has on a node.
type Hold struct {
	// Node is the index of the node.
	Node    int
	Percent int
}

// Duration is how long a job runs, or still runs.
type Duration struct {
	// Draw returns a random duration. It is called several times for each job.
	Draw func(random *rand.Rand) time.Duration
	// Bound is what the scheduler plans with; 0 is for ever.
	Bound time.Duration
	// Assumed is how long it is assumed to run in all, as nothing is known; 0 if something is. Rough is true if what is
	// known says little.
	Assumed time.Duration
	Rough   bool
}

// draw returns a random duration, and planned the bound; never for ever.
func (d *Duration) draw(random *rand.Rand) time.Duration {
	if d.Draw == nil {
		return never
	}
	return max(d.Draw(random), 0)
}

func (d *Duration) planned() time.Duration { return cmp.Or(max(d.Bound, 0), never) }

// Running is a job that runs; its Duration is what remains.
type Running struct {
	Key   string
	Holds []Hold
	Duration
}

// Need is members of a job that need the same.
type Need struct {
	Members int
	// Percent is what each needs, in percent of a GPU, all on one node.
	Percent int
	// Models are the accepted GPU models; empty means any.
	Models []string
}

// Waiting is a job that waits.
type Waiting struct {
	Key string
	// Queue is the one in which others are before it: those of the input with the same Queue that come first.
	Queue string
	// Turn is when its turn comes, as in queueing.Ranked: it decides between the job and
	// those that come. The order of the jobs that wait is that of the input.
	Turn  float64
	Needs []Need
	Duration
}

// Coming is a job that may come; it may go before those that wait.
type Coming struct {
	After time.Duration
	Waiting
}

// Estimate is when a waiting job is expected to start.
type Estimate struct {
	Key string
	// Earliest, Likely and Latest are the first, the median and the last of the draws. They
	// are zero if the job did not start in most of them: it does not fit, or waits for a job
	// whose end is unknown.
	Earliest, Likely, Latest time.Time
	// Behind is the running job whose end, in most draws, let it start; empty if it can start now. If that is the end
	// of a job that waited itself, it is the one that this waited for.
	Behind string
	// Assumed is a job on whose run time the start depends, in most draws, although it is only assumed; empty if there
	// is none. Rough is true if the start depends, in most draws, on run times that were learned from few jobs. What
	// counts are all jobs that end before on the nodes that it starts on, the one whose end let it start, and what
	// these depended on when they started. Of several jobs with assumed run times it is one.
	Assumed string
	Rough   bool
	// Passes is true if it started, in most draws, while others waited that are before it in its queue.
	Passes bool
}

// Estimates returns an estimate for each waiting job, in the order of the input.
func Estimates(in *Input) []Estimate {
	drawn := make([]drawnStarts, len(in.Waiting))
	prepared := prepare(in)
	for draw := range in.Draws {
		random := rand.New(rand.NewPCG(in.Seed, uint64(draw))) //nolint:gosec // simulation
		s := newSimulation(in, prepared, draw, random)
		s.run()
		for i := range in.Waiting {
			if s.starts[i].at < never {
				drawn[i].add(&s.starts[i])
			}
		}
	}
	estimates := make([]Estimate, len(in.Waiting))
	for i := range estimates {
		if estimates[i].Key = in.Waiting[i].Key; 2*len(drawn[i].times) > in.Draws {
			drawn[i].describe(&estimates[i], in.Now)
		}
	}
	return estimates
}

// drawnStarts are how a job started in the draws in which it did.
type drawnStarts struct {
	times []time.Duration
	// behind and assumed count the jobs that the starts depend on, and rough and passes the starts of which that is
	// true.
	behind, assumed map[string]int
	rough, passes   int
}

func (d *drawnStarts) add(one *start) {
	if d.behind == nil {
		d.behind, d.assumed = map[string]int{}, map[string]int{}
	}
	d.times = append(d.times, one.at)
	d.behind[one.behind]++
	if one.assumed != "" {
		d.assumed[one.assumed]++
	}
	d.rough += oneIf(one.rough)
	d.passes += oneIf(one.passes)
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

func (d *drawnStarts) describe(e *Estimate, now time.Time) {
	slices.Sort(d.times)
	count := len(d.times)
	e.Earliest, e.Likely, e.Latest = now.Add(d.times[0]), now.Add(d.times[count/2]), now.Add(d.times[count-1])
	e.Behind, e.Rough, e.Passes = mostOften(d.behind), 2*d.rough > count, 2*d.passes > count
	onAssumptions := 0
	for _, times := range d.assumed {
		onAssumptions += times
	}
	if 2*onAssumptions > count {
		e.Assumed = mostOften(d.assumed)
	}
}

// mostOften returns the key with the largest count, the first of equal ones.
func mostOften(counts map[string]int) (most string) {
	for key, count := range counts {
		if count > counts[most] || count == counts[most] && key < most {
			most = key
		}
	}
	return most
}
