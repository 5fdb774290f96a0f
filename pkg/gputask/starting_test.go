// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// bound gives the Pod a node, which the kubelet has taken it up on.
func (b podBuilder) bound(node string, since time.Duration) podBuilder {
	return b.with(func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.StartTime = node, ago(since)
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: *ago(since),
		})
	})
}

// waits has the Pod's container wait for a reason.
func (b podBuilder) waits(reason, message string) podBuilder {
	return b.with(func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:  p.Spec.Containers[0].Name,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}
	})
}

func TestWhatAPodWaitsForOnItsNodeIsSaid(t *testing.T) {
	t.Parallel()
	task := makeTask("train").phase(v1.PhasePending).started(time.Hour)
	gang := makeTask("train").phase(v1.PhasePending).started(time.Hour).replicas(2)
	testDecisions(t, map[string]decideTest{
		"a moment after it was bound": {
			task: task, pods: pods(task.pod(0, 0).bound("a", time.Second)),
			want: wanted{phase: v1.PhasePending, message: "waiting to start: Pod train on node a (ContainerCreating)", again: slowStart - time.Second},
		},
		"one of a gang": {
			task: gang, pods: pods(gang.pod(0, 0).running("a"), gang.pod(1, 0).bound("b", 10*time.Second).waits("ContainerCreating", "")),
			want: wanted{phase: v1.PhasePending, message: "1 of 2 Pods waits to start: Pod train-1 on node b (ContainerCreating)", again: 50 * time.Second},
		},
		"with volumes that can't be mounted": {
			task: gang, pods: pods(gang.pod(0, 0).running("a"), gang.pod(1, 0).bound("b", 5*time.Minute).waits("ContainerCreating", "").
				condition(corev1.PodReadyToStartContainers, corev1.ConditionFalse, "", "")),
			want: wanted{phase: v1.PhasePending, message: "1 of 2 Pods waits to start: Pod train-1 on node b has not started since 2026-11-21T11:55:00Z (ContainerCreating): " +
				"its volumes, network or devices are not ready; its Events say why"},
		},
		"with an image that is large": {
			task: task, pods: pods(task.pod(0, 0).bound("a", 5*time.Minute).waits("ContainerCreating", "").
				condition(corev1.PodReadyToStartContainers, corev1.ConditionTrue, "", "")),
			want: wanted{phase: v1.PhasePending, message: "its images or containers are not ready"},
		},
		"on a node that does not answer": {
			task: task, pods: pods(task.pod(0, 0).bound("a", 5*time.Minute).with(func(p *corev1.Pod) { p.Status.StartTime = nil })),
			want: wanted{phase: v1.PhasePending, message: "Pod train on node a has not started since 2026-11-21T11:55:00Z (Scheduled): the node has not started it yet", again: unreachableReport},
		},
		"with an init container that takes long": {
			task: task, pods: pods(task.pod(0, 0).bound("a", 5*time.Minute).waits("PodInitializing", "").with(func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "fetch"}}
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "fetch", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			})),
			want: wanted{phase: v1.PhasePending, message: "(PodInitializing): its init container fetch is running"},
		},
		"with an image that does not exist": {
			task: gang, pods: pods(gang.pod(0, 0).running("a"), gang.pod(1, 0).bound("b", 5*time.Minute).waits("ImagePullBackOff", "no such image")),
			want: wanted{phase: v1.PhasePending, message: "Pod train-1 on node b: ImagePullBackOff: no such image"},
		},
	})
}
