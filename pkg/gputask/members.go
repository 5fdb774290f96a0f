// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// member is one of the Pods that a task is made of.
type member struct {
	index int
	role  *Role
	// start is the member's current start.
	start
	// pod is the member's Pod, nil if it has none.
	pod *corev1.Pod
	// state is the Pod's outcome; meaningless without a Pod.
	state outcome
	// ignored is true if the Pod has failed in a way that a rule ignores.
	ignored bool
	// stale is true if the Pod belongs to an earlier attempt, or was made before the task was changed and
	// has not succeeded.
	stale bool
	// succeeded is true if the member has succeeded, failed if its index has failed for good.
	succeeded, failed bool
	// queued is true if the member of an array waits for others to end before it gets a Pod.
	queued bool
}

// done reports whether the member needs no Pod any more.
func (m *member) done() bool { return m.succeeded || m.failed }

// lacksPod reports whether the member has no Pod, but should have one now or after its backoff.
func (m *member) lacksPod() bool { return m.pod == nil && !m.done() && !m.queued }

// runs reports whether the member's current attempt runs.
func (m *member) runs() bool { return m.pod != nil && !m.stale && m.state == podRunning }

// matchMembers finds the Pod of each member by its name, since labels can be edited. Pods
// that belong to no member are stray.
func (d *decision) matchMembers() {
	members := make([]member, Total(d.Task))
	for r := range d.roles {
		for range d.roles[r].Count() {
			index := len(d.members)
			members[index] = member{index: index, role: &d.roles[r], start: currentStart(d.Task, &d.Task.Status, index)}
			d.members = append(d.members, &members[index])
		}
	}
	for _, pod := range d.Pods {
		index, found := memberIndex(d.Task, d.roles, pod.Name)
		if !found {
			d.stray = append(d.stray, pod)
			continue
		}
		m := d.members[index]
		m.pod = pod
		m.state = outcomeOf(pod)
		m.stale = podAttempt(pod) != m.attempt || m.state != podSucceeded && d.isOutdated(pod)
	}
}

func (d *decision) countSucceeded() int {
	return d.countMembers(func(m *member) bool { return m.succeeded })
}

// countDone returns how many members need no Pod any more.
func (d *decision) countDone() int {
	return d.countMembers((*member).done)
}

// countNotRunning returns how many members should run and do not.
func (d *decision) countNotRunning() int {
	return d.countMembers(func(m *member) bool { return !m.done() && !m.queued && !m.runs() })
}

// allRunOrHaveEnded reports whether no member waits for anything but its turn.
func (d *decision) allRunOrHaveEnded() bool { return d.countNotRunning() == 0 }

func (d *decision) countMembers(is func(*member) bool) int {
	count := 0
	for _, m := range d.members {
		if is(m) {
			count++
		}
	}
	return count
}

// start is one of a member's starts.
type start struct {
	// attempt is its number, from 0.
	attempt int32
	// failures is how many failures preceded it, as far as the backoff is concerned, lastFailure
	// when the last one was; nil if the member did not start again because of a failure.
	failures    int32
	lastFailure *metav1.Time
}

// currentStart returns a member's current start: that of the whole task, or a later one of its
// own.
func currentStart(task *v1.GPUTask, status *v1.GPUTaskStatus, index int) start {
	whole := taskRestarts(task, status)
	if at, found := findRestarts(status, index); found {
		own := &status.PodRestarts[at]
		return start{attempt: whole.Count + own.Count, failures: own.Count, lastFailure: &own.LastFailureTime}
	}
	return start{attempt: whole.Count, failures: status.Restarts, lastFailure: whole.LastFailureTime}
}

// taskRestarts returns how often the whole task was restarted. A status without it is of a
// version that restarted either the whole task or single Pods.
func taskRestarts(task *v1.GPUTask, status *v1.GPUTaskStatus) v1.TaskRestarts {
	switch {
	case status.TaskRestarts != nil:
		return *status.TaskRestarts
	case task.Spec.FailurePolicy == v1.RestartPod:
		return v1.TaskRestarts{}
	default:
		return v1.TaskRestarts{Count: status.Restarts, LastFailureTime: status.LastFailureTime}
	}
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
	record := v1.PodRestarts{Index: int32(m.index), Count: m.failures, LastFailureTime: *m.lastFailure} //nolint:gosec // at most 10000
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
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
