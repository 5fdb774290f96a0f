// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	pod := func() podBuilder { return makeTask("train").pod(0, 0) }
	reason := func(reason string) podBuilder {
		return pod().with(func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, reason })
	}
	tests := map[string]struct {
		pod  podBuilder
		want outcome
	}{
		"a new Pod is pending":                            {pod().with(func(p *corev1.Pod) { p.Status.Phase = "" }), podPending},
		"a running Pod runs":                              {pod().running("a"), podRunning},
		"a Pod on an unreachable node counts as running":  {pod().with(func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }), podRunning},
		"exit code 0 is success":                          {pod().succeeded(), podSucceeded},
		"exit code 1 is a failure":                        {pod().failed(0), podFailed},
		"a container that was lost is a loss":             {lostContainers(137, "ContainerStatusUnknown"), podLost},
		"a Pod of a node that was rebooted is lost":       {lostContainers(255, "Unknown"), podLost},
		"an eviction before it started is a loss":         {reason("Evicted"), podLost},
		"an eviction for a limit of its own is a failure": {pod().failed(0).with(func(p *corev1.Pod) { p.Status.Reason = "Evicted" }), podFailed},
		"its own deadline is a failure":                   {pod().failed(0).with(func(p *corev1.Pod) { p.Status.Reason = "DeadlineExceeded" }), podFailed},
		"a refusal is a loss, whatever the reason":        {reason("SomethingNew"), podLost},
		"a disruption is a loss whatever the exit code":   {pod().failed(0).condition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI", ""), podLost},
		"a disruption that did not happen is not a loss":  {pod().failed(0).condition(corev1.DisruptionTarget, corev1.ConditionFalse, "", ""), podFailed},
		"a running Pod that is deleted is terminating":    {pod().running("a").deletedAgo(time.Second), podTerminating},
		"a failure before the deletion stays a failure":   {pod().failed(5 * time.Second).deletedAgo(time.Second), podFailed},
		"a failure after the deletion is its effect":      {pod().failed(time.Second).deletedAgo(5 * time.Second), podStopped},
		"a success before the deletion is a success":      {pod().ended(corev1.PodSucceeded, 0, 5*time.Second).deletedAgo(time.Second), podSucceeded},
		"a preempted Pod that ends well did not finish":   {pod().ended(corev1.PodSucceeded, 0, 5*time.Second).deletedAgo(time.Second).condition(corev1.DisruptionTarget, corev1.ConditionTrue, "PreemptionByScheduler", ""), podStopped},
		"a node's clock that is behind makes no success":  {behind(20*time.Second, pod().ended(corev1.PodSucceeded, 0, 25*time.Second).deletedAgo(10*time.Second)), podStopped},
		"a success long before the deletion is one":       {behind(20*time.Second, pod().ended(corev1.PodSucceeded, 0, time.Minute).deletedAgo(10*time.Second)), podSucceeded},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := outcomeOf(tc.pod.Pod); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// lostContainers returns a Pod that has failed since its container was lost.
func lostContainers(exitCode int32, reason string) podBuilder {
	return makeTask("train").pod(0, 0).ended(corev1.PodFailed, exitCode, 0).with(func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Terminated.Reason = reason
	})
}

// behind makes a Pod's node have seen it before it was bound.
func behind(lag time.Duration, pod podBuilder) podBuilder {
	return pod.with(func(p *corev1.Pod) {
		p.Status.StartTime = ago(time.Hour + lag)
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: *ago(time.Hour),
		})
	})
}

func TestFailureText(t *testing.T) {
	t.Parallel()
	pod := func() podBuilder { return makeTask("train").pod(0, 0) }
	byNode := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = reason, message }
	}
	outOfMemory := func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled" }
	tests := map[string]struct {
		pod  podBuilder
		want string
	}{
		"the container's exit code": {pod().failed(0), "container gpu-task ended with exit code 1"},
		"and reason":                {pod().ended(corev1.PodFailed, 137, 0).with(outOfMemory), "container gpu-task ended with exit code 137 (OOMKilled)"},
		"an eviction for a limit of its own": {
			pod().ended(corev1.PodFailed, 137, 0).with(byNode("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ")),
			"Evicted: Pod ephemeral local storage usage exceeds the total limit of containers 1Gi",
		},
		"a deadline of its own": {
			pod().ended(corev1.PodFailed, 137, 0).with(byNode("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")),
			"DeadlineExceeded: Pod was active on the node longer than the specified deadline",
		},
		"that was met by the program":  {pod().failed(0).with(byNode("DeadlineExceeded", "")), "DeadlineExceeded: container gpu-task ended with exit code 1"},
		"before a container was there": {pod().with(byNode("DeadlineExceeded", "too long")), "DeadlineExceeded: too long"},
		"nobody knows":                 {pod(), "failed without a reason"},
	}
	for name, tc := range tests {
		if got := failureText(tc.pod.Pod); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
