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
	// Behind is the job whose end, in most draws, let it start; empty if it can start now.
	Behind string
}

// Estimates returns an estimate for each waiting job, in the order of the input.
func Estimates(in *Input) []Estimate {
	starts := make([][]time.Duration, len(in.Waiting))
	behind := make([]map[string]int, len(in.Waiting))
	prepared := prepare(in)
	for draw := range in.Draws {
		random := rand.New(rand.NewPCG(in.Seed, uint64(draw))) //nolint:gosec // simulation
		s := newSimulation(in, prepared, draw, random)
		s.run()
		for i := range in.Waiting {
			if at := s.started[i]; at < never {
				starts[i] = append(starts[i], at)
				if behind[i] == nil {
					behind[i] = map[string]int{}
				}
				behind[i][s.behind[i]]++
			}
		}
	}
	estimates := make([]Estimate, len(in.Waiting))
	for i := range estimates {
		estimates[i] = Estimate{Key: in.Waiting[i].Key}
		if times := starts[i]; 2*len(times) > in.Draws {
			slices.Sort(times)
			estimates[i].Earliest = in.Now.Add(times[0])
			estimates[i].Likely = in.Now.Add(times[len(times)/2])
			estimates[i].Latest = in.Now.Add(times[len(times)-1])
			estimates[i].Behind = mostOften(behind[i])
		}
	}
	return estimates
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
