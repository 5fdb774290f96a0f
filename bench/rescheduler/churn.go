// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

const (
	// full is the utilization of the GPUs when the measurement begins, with a tolerance
	// of nearly.
	full, nearly = 0.95, 0.002
	// gangPart is the fraction of the jobs with one GPU that become gangs of 2 to maxGang
	// Pods instead.
	gangPart = 0.05
	maxGang  = 4
	// saveEvery is how often jobs save their work, in seconds.
	saveEvery = 1800
)

// churner starts and ends jobs until the cluster is in a steady state.
type churner struct {
	*site
	stream *dataset.Stream
	random *rand.Rand
	ends   []*job // the first to end is last
	made   int
}

// churn returns a cluster on which a number of jobs of the trace have come and ended.
func churn(nodes []placement.Node, pods []dataset.Pod, jobs int, seed int64) (*site, error) {
	s, err := newSite(nodes)
	if err != nil {
		return nil, err
	}
	capacity := 0
	for i := range nodes {
		capacity += len(nodes[i].GPUs) * placement.Card
	}
	stream, err := dataset.NewStream(pods, nil, capacity, full, seed)
	if err != nil {
		return nil, err
	}
	c := &churner{site: s, stream: stream, random: rand.New(rand.NewPCG(uint64(seed), 5))} //nolint:gosec // a run repeats
	if err := c.fill(capacity); err != nil {
		return nil, err
	}
	if err := c.churn(jobs); err != nil {
		return nil, err
	}
	c.begin()
	c.upcoming = c.arrivals()
	return c.site, nil
}

// arrivals returns the jobs that arrive during the measurement.
func (c *churner) arrivals() []*job {
	var list []*job
	for now := 0.0; now < horizon; {
		next := c.stream.Next(now)
		now = next.Arrived
		list = append(list, c.job(next))
	}
	return list
}

// fill starts jobs as if they were running already.
func (c *churner) fill(capacity int) error {
	for used := 0; float64(used) < full*float64(capacity); {
		j, err := c.submit(c.stream.Running())
		if err != nil {
			return err
		}
		if j != nil {
			used += j.percent()
		}
	}
	return nil
}

// churn starts and ends jobs, and goes on until the utilization is as wanted.
func (c *churner) churn(jobs int) error {
	for n := 0; n < jobs || c.used() < full-nearly || c.used() > full+nearly; n++ {
		if n > 4*jobs {
			return fmt.Errorf("%.1f %% of the GPUs are in use after %d jobs, want %.1f %%", 100*c.used(), n, 100*full)
		}
		next := c.stream.Next(c.now)
		for len(c.ends) > 0 && c.ends[len(c.ends)-1].ends <= next.Arrived {
			last := len(c.ends) - 1
			c.end(c.ends[last])
			c.ends = c.ends[:last]
		}
		c.now = next.Arrived
		if _, err := c.submit(next); err != nil {
			return err
		}
	}
	return nil
}

// job makes a job of a line of the trace, now and then a gang.
func (c *churner) job(one *dataset.Job) *job {
	pods := 1
	if one.Pod.Shape.GPUs == 1 && c.random.Float64() < gangPart {
		pods = 2 + c.random.IntN(maxGang-1)
	}
	c.made++
	j := newJob(fmt.Sprintf("job-%06d", c.made), one.Pod.Shape, pods)
	j.arrives, j.runsFor = one.Arrived, one.Duration
	return j
}

// submit starts a job. One that does not fit is dropped.
func (c *churner) submit(one *dataset.Job) (*job, error) {
	j := c.job(one)
	j.ends = c.now + j.runsFor
	c.policy.Learn(c.cluster, c.cluster.Request(j.shape))
	started, err := c.start(j)
	if err != nil || !started {
		return nil, err
	}
	c.jobs[j.name] = j
	at, _ := slices.BinarySearchFunc(c.ends, j, func(a, b *job) int { return -cmp.Compare(a.ends, b.ends) })
	c.ends = slices.Insert(c.ends, at, j)
	return j, nil
}

// begin resets the time to 0 and decides when each job last saved its work.
func (c *churner) begin() {
	for _, j := range c.sorted() {
		j.ends -= c.now
		j.started, j.saved = true, -saveEvery*c.random.Float64()
	}
	c.now = 0
}
