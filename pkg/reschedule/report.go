// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

// Report says how it came to a proposal, or why there is none.
type Report struct {
	// Why there is no proposal, in a sentence; empty if there is one.
	Why string
	// Waiting are the tasks that wait for a node, in the order of the queue.
	Waiting []Verdict
	// Stale are proposed plans that should be aborted.
	Stale []StalePlan
	// Problems are what could not be read; the rest counts all the same.
	Problems []error
}

// Verdict is what becomes of a task that waits.
type Verdict struct {
	Task v1.TaskReference
	// Message says why nothing is moved for it, or what is.
	Message string
}

// StalePlan is a plan that no longer suits.
type StalePlan struct {
	Plan *v1.MovePlan
	Why  string
}

func (r *Report) tell(w *clusterview.Waiting, message string) {
	r.Waiting = append(r.Waiting, Verdict{Task: refTo(w.Task.GPUTask), Message: message})
}
