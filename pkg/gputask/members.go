// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// member is one of a task's replicas.
type member struct {
	index int
	// attempt is the current attempt of the member.
	attempt int32
	// lastFailure is when the previous attempt failed, nil if there was none.
	lastFailure *metav1.Time
	// pod is the member's Pod, nil if it has none.
	pod *corev1.Pod
	// state is the Pod's outcome; meaningless without a Pod.
	state outcome
	// stale is true if the Pod belongs to an earlier attempt.
	stale bool
}

// runs reports whether the member's current attempt runs.
func (m *member) runs() bool { return m.pod != nil && !m.stale && m.state == podRunning }

// matchMembers finds the Pod of each member by its name, since labels can be edited. Pods
// that belong to no member are returned as stray.
func matchMembers(task *v1.GPUTask, pods []*corev1.Pod) (members []member, stray []*corev1.Pod) {
	members = make([]member, Replicas(task))
	byName := make(map[string]*member, len(members))
	for i := range members {
		members[i].index = i
		members[i].attempt, members[i].lastFailure = currentAttempt(task, &task.Status, i)
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

// currentAttempt returns a member's current attempt and when the previous one failed: the
// task's if the whole task restarts, otherwise the member's own.
func currentAttempt(task *v1.GPUTask, status *v1.GPUTaskStatus, index int) (attempt int32, lastFailure *metav1.Time) {
	if task.Spec.FailurePolicy != v1.RestartPod {
		return status.Restarts, status.LastFailureTime
	}
	if at, found := findRestarts(status, index); found {
		return status.PodRestarts[at].Count, &status.PodRestarts[at].LastFailureTime
	}
	return 0, nil
}

// podAttempt returns the attempt that a Pod was created for, or -1 if its label can't be
// parsed.
func podAttempt(pod *corev1.Pod) int32 {
	attempt, err := strconv.ParseInt(pod.Labels[v1.LabelAttempt], 10, 32)
	if err != nil {
		return -1
	}
	return int32(attempt)
}

// findRestarts returns the position of a member's restarts in the status, which is sorted
// by index, or where to insert them.
func findRestarts(status *v1.GPUTaskStatus, index int) (at int, found bool) {
	return slices.BinarySearchFunc(status.PodRestarts, index, func(r v1.PodRestarts, index int) int {
		return cmp.Compare(int(r.Index), index)
	})
}

// recordAttempt writes the attempt of a member that restarts by itself.
func recordAttempt(status *v1.GPUTaskStatus, m *member) {
	record := v1.PodRestarts{Index: int32(m.index), Count: m.attempt, LastFailureTime: *m.lastFailure} //nolint:gosec // at most 4096 replicas
	at, found := findRestarts(status, m.index)
	if found {
		status.PodRestarts[at] = record
		return
	}
	status.PodRestarts = slices.Insert(status.PodRestarts, at, record)
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
