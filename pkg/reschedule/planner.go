// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

// Planner decides on moves in a view of a cluster. It is not safe for concurrent use.
type Planner struct {
	*clusterview.View
	Options Options
	// Ledger records what moves have cost lately.
	Ledger *Ledger

	// immovable caches the results of immovableReason.
	immovable map[*clusterview.Unit]string
	// proposals are the plans that wait for approval.
	proposals []*v1.MovePlan
}

// NewPlanner returns a planner. Without options it uses those of DefaultOptions.
func NewPlanner(view *clusterview.View, o *Options) *Planner {
	p := &Planner{
		View: view, Options: DefaultOptions(), Ledger: NewLedger(view.Plans, view.Now),
		immovable: map[*clusterview.Unit]string{},
	}
	if o != nil {
		p.Options = *o
	}
	return p
}

// Report explains a proposal, or why there is none.
type Report struct {
	// Why is the reason why there is no proposal, in a sentence; empty if there is one.
	Why string
	// Waiting are the tasks that wait for a node, in the order of the queue.
	Waiting []Verdict
	// Unhealthy are the tasks on GPUs that are not healthy, in the order in which they are
	// moved.
	Unhealthy []Verdict
	// Stale are proposed plans that should be aborted.
	Stale []StalePlan
	// Problems are what could not be read; everything else is included.
	Problems []error
}

// Verdict is the result for a task that waits, or that is on GPUs that are not healthy.
type Verdict struct {
	Task v1.TaskReference
	// Message is why nothing is moved for it, or what is.
	Message string
}

// StalePlan is a plan that is outdated.
type StalePlan struct {
	Plan *v1.MovePlan
	Why  string
}

func (r *Report) addWaiting(w *clusterview.Waiting, message string) {
	r.Waiting = append(r.Waiting, Verdict{Task: refTo(w.Task.GPUTask), Message: message})
}
