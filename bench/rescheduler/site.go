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
	// pods are where its Pods are; nobody knows while it waits.
	pods []placement.Place
	// here is true for each Pod that has a place.
	here []bool
	// arrives is when it comes, runsFor how long it runs.
	arrives, runsFor float64
	// ends is when it ends by itself, saved when it saved its work for the last time;
	// it is negative.
	ends, saved float64
	// starts is when it started to run, for one that waits at first.
	starts  float64
	started bool
	// movedAt is when each Pod was moved for the last time; less than 0 if never.
	movedAt []float64
}

func (j *job) podName(index int) string { return fmt.Sprintf("%s-%d", j.name, index) }

// runs reports whether all its Pods have a place.
func (j *job) runs() bool { return !slices.Contains(j.here, false) }

// gang is what the engine places.
func (j *job) gang() *placement.Gang {
	missing := j.missing()
	return &placement.Gang{Roles: []placement.Role{{Shape: j.shape, Min: missing, Max: missing}}}
}

// missing is how many of its Pods have no place.
func (j *job) missing() int {
	count := 0
	for _, here := range j.here {
		if !here {
			count++
		}
	}
	return count
}

// percent is how much of GPUs all of it gets.
func (j *job) percent() int { return j.shape.Percent() * len(j.here) }

func newJob(name string, shape placement.Shape, pods int) *job {
	return &job{
		name: name, shape: shape,
		pods: make([]placement.Place, pods), here: make([]bool, pods), movedAt: slices.Repeat([]float64{-1}, pods),
	}
}

func (j *job) cloneSlices() {
	j.pods, j.here, j.movedAt = slices.Clone(j.pods), slices.Clone(j.here), slices.Clone(j.movedAt)
}

// site is a cluster with what runs on it.
type site struct {
	nodes   []placement.Node // by name
	cluster *placement.Cluster
	policy  *packing.Policy
	// jobs are those that run or ran, by name.
	jobs map[string]*job
	// coming are the jobs that will come, the first one first.
	coming []*job
	now    float64
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

// copy returns the same site, for another system to change.
func (s *site) copy() (*site, error) {
	c, err := newSite(s.nodes)
	if err != nil {
		return nil, err
	}
	c.now = s.now
	for _, j := range s.coming {
		its := *j
		its.cloneSlices()
		c.coming = append(c.coming, &its)
	}
	for _, j := range s.sorted() {
		its := *j
		its.cloneSlices()
		c.jobs[j.name] = &its
		c.policy.Mix().Add(c.cluster.Request(j.shape))
		for i := range its.pods {
			if its.here[i] {
				if err := c.cluster.Place(placement.Pod{Name: its.podName(i), Node: its.pods[i].Node, Use: its.pods[i].Use}); err != nil {
					return nil, err
				}
			}
		}
	}
	c.policy.Refresh(c.cluster)
	return c, nil
}

// sorted returns all jobs in the order of their names.
func (s *site) sorted() []*job {
	list := make([]*job, 0, len(s.jobs))
	for _, j := range s.jobs {
		list = append(list, j)
	}
	slices.SortFunc(list, func(a, b *job) int { return cmp.Compare(a.name, b.name) })
	return list
}

// start places what is missing of a job, all or nothing.
func (s *site) start(j *job) (started bool, err error) {
	if j.runs() {
		return true, nil
	}
	plan, fits, err := s.cluster.Plan(j.gang())
	if err != nil || !fits {
		return false, err
	}
	next := 0
	for i := range j.here {
		if j.here[i] {
			continue
		}
		if err := s.settle(j, i, plan.Members[next].Place); err != nil {
			return false, err
		}
		next++
	}
	return true, nil
}

// settle gives a Pod of a job a place.
func (s *site) settle(j *job, index int, place placement.Place) error {
	j.pods[index], j.here[index] = place, true
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
	j.here[index] = false
	j.ends += s.unsaved(j, index) / float64(len(j.here))
	j.movedAt[index] = s.now
}

// unsaved is for how long a Pod of a job has not saved its work, in seconds.
func (s *site) unsaved(j *job, index int) float64 {
	since := s.now - math.Mod(s.now-j.saved, saveEvery)
	if j.movedAt[index] >= 0 {
		since = max(since, j.movedAt[index])
	}
	return s.now - since
}

// end removes a job.
func (s *site) end(j *job) {
	for i := range j.here {
		s.cluster.Remove(j.podName(i))
	}
	delete(s.jobs, j.name)
}

// used is how much of the GPUs is in use, from 0 to 1.
func (s *site) used() float64 {
	used, all := 0, 0
	for i := range s.nodes {
		all += len(s.nodes[i].GPUs) * placement.Card
	}
	for _, j := range s.jobs {
		for _, here := range j.here {
			if here {
				used += j.shape.Percent()
			}
		}
	}
	return float64(used) / float64(all)
}
