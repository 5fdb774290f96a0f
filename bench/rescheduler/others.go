// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// nothing waits for jobs to end.
type nothing struct{}

func (nothing) act(*trial) (float64, error) { return 0, nil }

// recreateAll stops one task after the other, gangs as a whole, and lets the scheduler
// reschedule it: the documents' behaviour.
type recreateAll struct {
	done map[string]bool
}

func (a *recreateAll) act(r *trial) (float64, error) {
	for _, j := range r.sorted() {
		if a.done[j.name] || !j.runs() || j.percent() == 0 || slices.Contains(r.waited, j) {
			continue
		}
		a.done[j.name] = true
		r.displaceAll(j)
		return turnSeconds, nil
	}
	return 0, nil
}

// highNodeUtilization does what the descheduler's plugin of that name does: it evicts the
// Pods of underutilized nodes, least utilized first, as long as the other nodes together
// have free resources, and leaves it to the scheduler to pack them there. It is aware
// neither of gangs nor of waiting tasks.
type highNodeUtilization struct {
	// threshold is the utilization of a node's GPUs below which it is underutilized.
	threshold float64
}

// cycleSeconds is how often the descheduler runs, by default.
const cycleSeconds = 300

func (h *highNodeUtilization) act(r *trial) (float64, error) {
	names, used := r.byUse()
	underutilized := map[string]bool{}
	for _, name := range names {
		underutilized[name] = used[name] < h.threshold
	}
	left := r.freeOn(func(node string) bool { return !underutilized[node] })
	byNode := r.byNode()
	for _, name := range names {
		if !underutilized[name] {
			continue
		}
		for _, one := range byNode[name] {
			shape := &one.job.shape
			if left.gpus <= 0 || left.cpu <= 0 || left.memory <= 0 {
				return cycleSeconds, nil
			}
			left.gpus -= shape.Percent()
			left.cpu -= shape.CPU
			left.memory -= shape.Memory
			if len(one.job.placed) > 1 && !slices.Contains(one.job.placed, false) && !allOn(one.job, name) {
				r.broken[one.job.name] = true
			}
			r.displace(one.job, one.index)
		}
	}
	return cycleSeconds, nil
}

// allOn reports whether all Pods of a job are on one node.
func allOn(j *job, node string) bool {
	return !slices.ContainsFunc(j.pods, func(place placement.Place) bool { return place.Node != node })
}

// tenant is a Pod of a job.
type tenant struct {
	job   *job
	index int
}

// byNode returns the Pods with GPUs that run on each node, sorted by name.
func (r *trial) byNode() map[string][]tenant {
	list := map[string][]tenant{}
	for _, j := range r.sorted() {
		for i, placed := range j.placed {
			if placed && j.shape.Percent() > 0 {
				list[j.pods[i].Node] = append(list[j.pods[i].Node], tenant{j, i})
			}
		}
	}
	return list
}

// amounts are the resources of nodes in total; gpus in percent of one.
type amounts struct {
	gpus        int
	cpu, memory int64
}

// freeOn returns what is free on some nodes.
func (r *trial) freeOn(is func(node string) bool) amounts {
	var sum amounts
	for i := range r.nodes {
		if is(r.nodes[i].Name) {
			sum.gpus += len(r.nodes[i].GPUs) * placement.Card
			sum.cpu += r.nodes[i].CPU
			sum.memory += r.nodes[i].Memory
		}
	}
	for _, j := range r.jobs {
		for i, placed := range j.placed {
			if placed && is(j.pods[i].Node) {
				sum.gpus -= j.shape.Percent()
				sum.cpu -= j.shape.CPU
				sum.memory -= j.shape.Memory
			}
		}
	}
	return sum
}
