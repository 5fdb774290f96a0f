// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// job is a task: a Pod, or a gang of them. Times are in seconds since the
// measurement began.
type job struct {
	name  string
	shape placement.Shape
	// pods are the places of its Pods; undefined while they wait.
	pods []placement.Place
	// placed is true for each Pod that has a place.
	placed []bool
	// arrives is when it arrives, runsFor how long it runs.
	arrives, runsFor float64
	// ends is when it ends by itself, saved a time at which it saved its work: before the
	// measurement, and so negative, or at its start.
	ends, saved float64
	// starts is when it started to run, for one that waits at first.
	starts  float64
	started bool
	// movedAt is when each Pod was last moved; negative if never.
	movedAt []float64
}

func (j *job) podName(index int) string { return fmt.Sprintf("%s-%d", j.name, index) }

// runs reports whether all its Pods have a place.
func (j *job) runs() bool { return !slices.Contains(j.placed, false) }

// gang returns the Pods without a place, as the engine places them.
func (j *job) gang() *placement.Gang {
	missing := j.missing()
	return &placement.Gang{Roles: []placement.Role{{Shape: j.shape, Min: missing, Max: missing}}}
}

// missing returns how many of its Pods have no place.
func (j *job) missing() int {
	count := 0
	for _, placed := range j.placed {
		if !placed {
			count++
		}
	}
	return count
}

// percent returns the GPU capacity of all its Pods, in percent of one GPU.
func (j *job) percent() int { return j.shape.Percent() * len(j.placed) }

func newJob(name string, shape placement.Shape, pods int) *job {
	return &job{
		name: name, shape: shape,
		pods: make([]placement.Place, pods), placed: make([]bool, pods), movedAt: slices.Repeat([]float64{-1}, pods),
	}
}

func (j *job) cloneSlices() {
	j.pods, j.placed, j.movedAt = slices.Clone(j.pods), slices.Clone(j.placed), slices.Clone(j.movedAt)
}

// site is a cluster and what runs on it.
type site struct {
	nodes   []placement.Node // by name
	cluster *placement.Cluster
	policy  *packing.Policy
	// jobs are those that run or ran, by name.
	jobs map[string]*job
	// upcoming are the jobs that have not arrived yet, in the order of their arrival.
	upcoming []*job
	now      float64
}

// newSite returns an empty cluster.
func newSite(nodes []placement.Node) (*site, error) {
	s := &site{nodes: nodes, policy: packing.New(packing.Default()), jobs: map[string]*job{}}
	s.cluster = placement.NewCluster(s.policy)
	for i := range nodes {
		if err := s.cluster.SetNode(nodes[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// copy returns a copy of the site, for another system to change.
func (s *site) copy() (*site, error) {
	c, err := newSite(s.nodes)
	if err != nil {
		return nil, err
	}
	c.now = s.now
	for _, j := range s.upcoming {
		clone := *j
		clone.cloneSlices()
		c.upcoming = append(c.upcoming, &clone)
	}
	for _, j := range s.sorted() {
		clone := *j
		clone.cloneSlices()
		c.jobs[j.name] = &clone
		c.policy.Mix().Add(c.cluster.Request(j.shape))
		for i := range clone.pods {
			if clone.placed[i] {
				if err := c.cluster.Place(placement.Pod{Name: clone.podName(i), Node: clone.pods[i].Node, Use: clone.pods[i].Use}); err != nil {
					return nil, err
				}
			}
		}
	}
	c.policy.Refresh(c.cluster)
	return c, nil
}

// sorted returns all jobs, sorted by name.
func (s *site) sorted() []*job {
	list := make([]*job, 0, len(s.jobs))
	for _, j := range s.jobs {
		list = append(list, j)
	}
	slices.SortFunc(list, func(a, b *job) int { return cmp.Compare(a.name, b.name) })
	return list
}

// start places the Pods of a job that have no place, all or nothing.
func (s *site) start(j *job) (started bool, err error) {
	if j.runs() {
		return true, nil
	}
	plan, fits, err := s.cluster.Plan(j.gang())
	if err != nil || !fits {
		return false, err
	}
	next := 0
	for i := range j.placed {
		if j.placed[i] {
			continue
		}
		if err := s.bind(j, i, plan.Members[next].Place); err != nil {
			return false, err
		}
		next++
	}
	return true, nil
}

// bind gives a Pod of a job a place.
func (s *site) bind(j *job, index int, place placement.Place) error {
	j.pods[index], j.placed[index] = place, true
	if err := s.cluster.Place(placement.Pod{Name: j.podName(index), Node: place.Node, Use: place.Use}); err != nil {
		return err
	}
	if !j.started && j.runs() {
		j.started, j.starts = true, s.now
		if j.runsFor > 0 {
			j.ends, j.saved = s.now+j.runsFor, s.now
		}
	}
	return nil
}

// evict takes a Pod of a job from its node.
func (s *site) evict(j *job, index int) {
	s.cluster.Remove(j.podName(index))
	j.placed[index] = false
	j.ends += s.unsaved(j, index) / float64(len(j.placed))
	j.movedAt[index] = s.now
}

// unsaved returns for how many seconds a Pod of a job has not saved its work.
func (s *site) unsaved(j *job, index int) float64 {
	since := s.now - math.Mod(s.now-j.saved, saveEvery)
	if j.movedAt[index] >= 0 {
		since = max(since, j.movedAt[index])
	}
	return s.now - since
}

// end removes a job.
func (s *site) end(j *job) {
	for i := range j.placed {
		s.cluster.Remove(j.podName(i))
	}
	delete(s.jobs, j.name)
}

// used returns the utilization of the GPUs, from 0 to 1.
func (s *site) used() float64 {
	used, all := 0, 0
	for i := range s.nodes {
		all += len(s.nodes[i].GPUs) * placement.Card
	}
	for _, j := range s.jobs {
		for _, placed := range j.placed {
			if placed {
				used += j.shape.Percent()
			}
		}
	}
	return float64(used) / float64(all)
}
