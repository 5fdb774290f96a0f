// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/test/chaos/check"
	"falldio.github.io/gpu-controller/test/chaos/schedule"
)

func TestNodesEndPods(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault  schedule.Fault
		code   int32
		reason string
		byWhom string
	}{
		"a reboot":                      {schedule.Fault{Kind: check.FaultReboot, Way: schedule.WayEnded}, 255, "Unknown", "lost with its node"},
		"a reboot that leaves no trace": {schedule.Fault{Kind: check.FaultReboot, Way: schedule.WayNotFound}, 137, "ContainerStatusUnknown", "lost with its node"},
		"a shutdown":                    {schedule.Fault{Kind: check.FaultShutdown}, 143, "Error", "stopped by its node"},
		"memory that is used up":        {schedule.Fault{Kind: check.FaultPressure}, 137, "Error", "stopped by its node"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "gpu-task"}}}, Status: corev1.PodStatus{
				Phase:      corev1.PodRunning,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				ContainerStatuses: []corev1.ContainerStatus{{
					Name: "gpu-task", Ready: true, ContainerID: "simulated://c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
				}},
			}}
			end(&pod.Status, &test.fault, started.Add(time.Minute))
			ended := pod.Status.ContainerStatuses[0].State.Terminated
			if ended == nil || ended.ExitCode != test.code || ended.Reason != test.reason || pod.Status.Conditions[0].Status != corev1.ConditionFalse {
				t.Errorf("status %+v", pod.Status)
			}
			if got := podfacts.OutcomeOf(pod); got != podfacts.Lost || podfacts.StoppedBy(pod) != test.byWhom {
				t.Errorf("it counts as %v, stopped by %q", got, podfacts.StoppedBy(pod))
			}
		})
	}
}
