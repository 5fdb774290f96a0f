// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/verdict"
)

func TestAnOutlookSaysOnceWhatTheSchedulerHasFound(t *testing.T) {
	t.Parallel()
	const few = "4 nodes have too few free GPUs"
	tests := map[string]struct {
		nodes  string
		reason *v1.WaitingReason
		want   string
	}{
		"it has said nothing":                     {few, nil, few},
		"it has published the same":               {few, &v1.WaitingReason{Reason: v1.WaitsForGPUs, Message: few}, few},
		"it has published more":                   {few, &v1.WaitingReason{Reason: v1.WaitsForGPUs, Message: few + "; GPUs are kept"}, few + "; GPUs are kept"},
		"it has only said a sentence so far":      {few, &v1.WaitingReason{Message: few + "; needs 4 GPUs; it would start with 1 GPU"}, few},
		"another scheduler says something else":   {few, &v1.WaitingReason{Message: "4 Insufficient cpu"}, "4 Insufficient cpu; " + few},
		"another scheduler, and nothing is known": {"", &v1.WaitingReason{Message: "4 Insufficient cpu"}, "4 Insufficient cpu"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &Outlook{Verdict: Sometime, Nodes: test.nodes}
			if o.say(&verdict.Verdict{Kind: v1.TaskQueued}, test.reason); o.Nodes != test.want {
				t.Errorf("it says %q, want %q", o.Nodes, test.want)
			}
		})
	}
}

func TestWhatNeverFitsDoesNotWaitForOthersBeforeTheSchedulerHasPublishedWhy(t *testing.T) {
	t.Parallel()
	const few = "16 nodes have too few GPUs"
	tests := map[string]struct {
		reason *v1.WaitingReason
		want   Verdict
	}{
		"the scheduler has only said a sentence so far":                         {&v1.WaitingReason{Message: "it would not fit even if nothing else ran; " + few + "; needs 16 GPUs"}, Never},
		"the scheduler has published it, the task's status does not say it yet": {&v1.WaitingReason{Reason: v1.WaitsForever, Never: true, Message: few}, Never},
		"the scheduler has published that it may fit":                           {&v1.WaitingReason{Reason: v1.WaitsForGPUs, Message: few}, Sometime},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := outlookFor(&verdict.Verdict{Kind: v1.TaskQueued}, test.reason, &Outlook{Verdict: Never, Nodes: few})
			if got.Verdict != test.want {
				t.Errorf("the verdict is %s, want %s", got.Verdict, test.want)
			}
		})
	}
}
