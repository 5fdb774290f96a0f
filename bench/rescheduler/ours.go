// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

// idleSeconds is how long ours waits until it plans again if there was nothing to move.
const idleSeconds = 600

// ours is the rescheduler of gpu-controller: its plans are those of package
// reschedule, made from Nodes, Pods and GPUTasks.
type ours struct {
	objects *objects
	// fewest is true if no work is ever lost, so that only the number of moves counts.
	fewest bool
	// plan is being carried out, and next is the index of its next move.
	plan *v1.MovePlan
	next int
}

// options returns the defaults, but without approvals and budgets, of which the trace
// has none.
func (o *ours) options() *reschedule.Options {
	options := reschedule.DefaultOptions()
	options.Patience = -1
	options.Threshold = 0 // only waiting tasks count here
	options.ApproveCost = math.MaxInt64
	options.MovesPerHour, options.GPUMinutesPerHour = 0, 0
	return &options
}

func (o *ours) act(r *trial) (float64, error) {
	if o.plan == nil {
		world, err := o.objects.world(r, o.fewest)
		if err != nil {
			return 0, err
		}
		begin := time.Now()
		o.plan, _ = reschedule.Propose(world, o.options())
		r.times = append(r.times, time.Since(begin))
		o.next = 0
	}
	if o.plan == nil {
		if r.frozen {
			return 0, nil
		}
		return idleSeconds, nil
	}
	if err := o.turn(r); err != nil {
		return 0, err
	}
	if o.next == len(o.plan.Spec.Moves) {
		if err := o.finish(r); err != nil {
			return 0, err
		}
		o.plan = nil
	}
	r.holds = o.plan != nil
	return turnSeconds, nil
}

// turn moves the Pods of the next turn to their places.
func (o *ours) turn(r *trial) error {
	moves := o.plan.Spec.Moves
	turn := moves[o.next].Turn
	begin := o.next
	for ; o.next < len(moves) && moves[o.next].Turn == turn; o.next++ {
		one, known := o.objects.pods[moves[o.next].Pod]
		if known && r.jobs[one.job.name] == one.job {
			r.displace(one.job, one.index)
		}
	}
	for i := begin; i < o.next; i++ {
		one := o.objects.pods[moves[i].Pod]
		if r.jobs[one.job.name] != one.job {
			continue // it has ended meanwhile
		}
		if err := o.put(r, one, &moves[i].To); err != nil {
			return err
		}
		r.dequeue(one.job)
	}
	return nil
}

// finish starts the task that room was made for, at its planned places.
func (o *ours) finish(r *trial) error {
	for i := range o.plan.Spec.Places {
		place := &o.plan.Spec.Places[i]
		one := o.objects.pods[place.Pod]
		if err := o.put(r, one, &place.MovePlace); err != nil {
			return err
		}
		r.dequeue(one.job)
	}
	return nil
}

// put binds a Pod to the exact place that a plan has for it.
func (o *ours) put(r *trial, one tenant, to *v1.MovePlace) error {
	use := placement.Use{CPU: one.job.shape.CPU, Memory: one.job.shape.Memory, Percent: placement.Card}
	if one.job.shape.Share > 0 {
		use.Percent = one.job.shape.Share
	}
	for _, uuid := range to.GPUs {
		var card int
		if _, err := fmt.Sscanf(uuid[len("GPU-")+len(to.Node):], "-%d", &card); err != nil {
			return fmt.Errorf("GPU %s: %w", uuid, err)
		}
		use.GPUs = append(use.GPUs, card)
	}
	if !r.cluster.Has(to.Node, &use) {
		return fmt.Errorf("the place of Pod %s on node %s is not free", one.job.podName(one.index), to.Node)
	}
	return r.bind(one.job, one.index, placement.Place{Node: to.Node, Use: use})
}

func newOurs(nodes []placement.Node, fewest bool) (*ours, error) {
	o, err := newObjects(nodes)
	return &ours{objects: o, fewest: fewest}, err
}
