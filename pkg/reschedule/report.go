// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

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
