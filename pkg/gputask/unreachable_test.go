// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestDecideAboutUnreachableNodes(t *testing.T) {
	t.Parallel()
	single := func() taskBuilder { return makeTask("train").started(time.Minute).phase(v1.PhasePending) }
	forcedAfter := func(seconds int32) func(*v1.GPUTask) {
		return func(t *v1.GPUTask) { t.Spec.UnreachableNodeTimeoutSeconds = &seconds }
	}
	unreachableFor := func(d time.Duration) func(*Input) {
		return func(in *Input) {
			in.UnreachableSince = func(string) (time.Time, bool) { return now.Add(-d), true }
		}
	}
	testDecisions(t, map[string]decideTest{
		"a Pod that does not stop on an unreachable node is waited for": {
			task:   single(),
			pods:   pods(single().pod(0, 0).running("a").deletedAgo(time.Hour)),
			change: unreachableFor(time.Hour),
			want:   wanted{phase: v1.PhasePending, message: "waiting to start"},
		},
		"a Pod that does not stop on an unreachable node is deleted by force if the task says so": {
			task:   single().with(forcedAfter(300)),
			pods:   pods(single().pod(0, 0).running("a").deletedAgo(time.Hour)),
			change: unreachableFor(6 * time.Minute),
			want:   wanted{phase: v1.PhasePending, message: "waiting to start", forced: []string{"train@0"}},
		},
		"not before the node has been unreachable for long enough": {
			task:   single().with(forcedAfter(300)),
			pods:   pods(single().pod(0, 0).running("a").deletedAgo(time.Hour)),
			change: unreachableFor(4 * time.Minute),
			want:   wanted{phase: v1.PhasePending, again: unreachableCheck},
		},
		"not if the node is reachable": {
			task: single().with(forcedAfter(300)),
			pods: pods(single().pod(0, 0).running("a").deletedAgo(time.Hour)),
			change: func(in *Input) {
				in.UnreachableSince = func(string) (time.Time, bool) { return time.Time{}, false }
			},
			want: wanted{phase: v1.PhasePending, again: unreachableCheck},
		},
		"not before its time to stop is over": {
			task:   single().with(forcedAfter(300)),
			pods:   pods(single().pod(0, 0).running("a").deletedAgo(10 * time.Second)),
			change: unreachableFor(time.Hour),
			want:   wanted{phase: v1.PhasePending, again: 20 * time.Second},
		},
	})
}
