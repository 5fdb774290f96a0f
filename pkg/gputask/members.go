// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// member is one of a task's replicas.
type member struct {
	index int
	// attempt is the start of the member that counts now.
	attempt int32
	// pod is the member's Pod, nil if it has none.
	pod *corev1.Pod
	// state is the Pod's outcome; meaningless without a Pod.
	state outcome
	// stale is true if the Pod belongs to an earlier attempt.
	stale bool
}

// sortIntoMembers finds the Pod of each member. The Pod's name tells which
// member it is, since labels can be edited. Pods that belong to no member are
// returned apart.
func sortIntoMembers(task *v1.GPUTask, pods []*corev1.Pod) (members []member, stray []*corev1.Pod) {
	members = make([]member, Replicas(task))
	byName := make(map[string]*member, len(members))
	for i := range members {
		members[i] = member{index: i, attempt: attemptOf(task, &task.Status, i)}
		byName[PodName(task, i)] = &members[i]
	}
	for _, pod := range pods {
		m, found := byName[pod.Name]
		if !found {
			stray = append(stray, pod)
			continue
		}
		m.pod = pod
		m.state = outcomeOf(pod)
		m.stale = podAttempt(pod) != m.attempt
	}
	return members, stray
}

// attemptOf returns the attempt that counts for a member: the task's restarts
// when the whole task restarts, else the member's own.
func attemptOf(task *v1.GPUTask, status *v1.GPUTaskStatus, index int) int32 {
	if task.Spec.FailurePolicy != v1.RestartPod {
		return status.Restarts
	}
	for _, restarts := range status.PodRestarts {
		if int(restarts.Index) == index {
			return restarts.Count
		}
	}
	return 0
}

// podAttempt returns the attempt that a Pod was created for, or -1 if its
// label can't be read.
func podAttempt(pod *corev1.Pod) int32 {
	attempt, err := strconv.ParseInt(pod.Labels[v1.LabelAttempt], 10, 32)
	if err != nil {
		return -1
	}
	return int32(attempt)
}

// raiseAttempt records that a member is started anew.
func raiseAttempt(status *v1.GPUTaskStatus, index int) {
	for i := range status.PodRestarts {
		if int(status.PodRestarts[i].Index) == index {
			status.PodRestarts[i].Count++
			return
		}
	}
	status.PodRestarts = append(status.PodRestarts, v1.PodRestarts{Index: int32(index), Count: 1}) //nolint:gosec // at most 4096 replicas
	slices.SortFunc(status.PodRestarts, func(a, b v1.PodRestarts) int { return int(a.Index - b.Index) })
}

// nodesOf returns the distinct nodes of the Pods, sorted.
func nodesOf(pods []*corev1.Pod) []string {
	var nodes []string
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	slices.SortFunc(nodes, strings.Compare)
	return slices.Compact(nodes)
}
