// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	status := func(phase v1.GPUTaskPhase) taskBuilder { return makeTask("train").phase(phase) }
	tests := map[string]struct {
		before, after taskBuilder
		want          []string
	}{
		"nothing has happened":     {status(v1.PhaseRunning), status(v1.PhaseRunning), nil},
		"a new task has no Events": {status(""), status(v1.PhasePending), nil},
		"a task runs for the first time": {
			status(v1.PhasePending),
			status(v1.PhaseRunning).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning),
			nil,
		},
		"a task runs again": {
			status(v1.PhasePending).condition(v1.ConditionRunning, metav1.ConditionFalse, reasonTooFewRunning),
			status(v1.PhaseRunning).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning),
			[]string{"Normal Running"},
		},
		"a Pod of a gang that runs on restarts": {
			status(v1.PhaseRunning).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning),
			status(v1.PhaseRunning).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonEnoughRunning).restarted(1, 0),
			[]string{"Warning Restarting"},
		},
		"a task succeeds":              {status(v1.PhaseRunning), status(v1.PhaseSucceeded), []string{"Normal Succeeded"}},
		"a task is suspended":          {status(v1.PhaseRunning), status(v1.PhaseSuspended), []string{"Normal Suspended"}},
		"a running task loses a Pod":   {status(v1.PhaseRunning), status(v1.PhasePending), []string{"Warning PodLost"}},
		"a failure is not a lost Pod":  {status(v1.PhaseRunning), status(v1.PhasePending).restarted(1, 0), []string{"Warning Restarting"}},
		"suspension is not a lost Pod": {status(v1.PhaseRunning), status(v1.PhasePending).condition(v1.ConditionSuspended, metav1.ConditionTrue, "x"), nil},
		"Pods are replaced after a change": {
			status(v1.PhaseRunning),
			status(v1.PhaseRunning).condition(v1.ConditionSuspended, metav1.ConditionTrue, reasonChanged),
			[]string{"Normal Changed"},
		},
		"Pods that were replaced after a change are not lost": {
			status(v1.PhaseRunning).condition(v1.ConditionSuspended, metav1.ConditionTrue, reasonChanged),
			status(v1.PhasePending).condition(v1.ConditionSuspended, metav1.ConditionFalse, "Resumed"),
			nil,
		},
		"a failing task loses no Pod": {status(v1.PhaseRunning), status(v1.PhasePending).condition(v1.ConditionFailureTarget, metav1.ConditionTrue, "x"), nil},
		"a task fails with its reason": {
			status(v1.PhaseRunning),
			status(v1.PhaseFailed).condition(v1.ConditionFailed, metav1.ConditionTrue, v1.ReasonDeadlineExceeded),
			[]string{"Warning DeadlineExceeded"},
		},
		"a missing dependency is a warning": {
			status(""),
			status(v1.PhaseWaiting).condition(v1.ConditionDependenciesMet, metav1.ConditionFalse, reasonDependencyNotFound),
			[]string{"Warning DependencyNotFound"},
		},
		"waiting for a task is normal": {
			status(""),
			status(v1.PhaseWaiting).condition(v1.ConditionDependenciesMet, metav1.ConditionFalse, reasonWaitingForTask),
			[]string{"Normal WaitingForDependency"},
		},
		"an Event is not repeated": {
			status(v1.PhaseWaiting).condition(v1.ConditionDependenciesMet, metav1.ConditionFalse, reasonDependencyCycle),
			status(v1.PhaseWaiting).condition(v1.ConditionDependenciesMet, metav1.ConditionFalse, reasonDependencyCycle),
			nil,
		},
		"a refused Pod is a warning": {
			status(v1.PhasePending),
			status(v1.PhasePending).condition(v1.ConditionPodsCreated, metav1.ConditionFalse, "QuotaExceeded"),
			[]string{"Warning QuotaExceeded"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, event := range Events(&tc.before.Status, &tc.after.Status) {
				got = append(got, event.Type+" "+event.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
