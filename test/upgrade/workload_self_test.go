// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestWhatIsLostIsSaidToBeGone: this is when the test of an upgrade has most to say.
func TestWhatIsLostIsSaidToBeGone(t *testing.T) {
	lost := runs(newTask("a", "train", "1"), 1)
	if got, want := lost.missing(nil), "a/train is gone"; got != want {
		t.Errorf("a task that is gone: %q, want %q", got, want)
	}
	if got, want := describePlan(nil), "it is gone"; got != want {
		t.Errorf("a plan that is gone: %q, want %q", got, want)
	}
}

func TestATaskIsMissingUntilItDoesWhatItIsTo(t *testing.T) {
	train := runs(newTask("a", "train", "1"), 1)
	task := train.DeepCopy()
	task.Status.Phase, task.Status.Message = v1.PhasePending, "no node is free"
	if got, want := train.missing(task), "a/train is to be Running, is Pending: no node is free"; got != want {
		t.Errorf("a task that waits: %q, want %q", got, want)
	}
	task.Status.Phase, task.Status.Running = v1.PhaseRunning, 1
	if got := train.missing(task); got != "" {
		t.Errorf("a task that runs: %q", got)
	}
}
