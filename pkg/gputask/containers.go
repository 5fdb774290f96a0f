// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// lingering is how long containers that others have added to a Pod may run on after those of the task have ended: some
// end by themselves then, and the Pod with its logs stays.
const lingering = 10 * time.Second

// isOwn reports whether a container of a member's Pod is one of the task's template, not one that somebody else has
// added.
func (m *member) isOwn(container string) bool {
	named := func(c corev1.Container) bool { return c.Name == container }
	if m.role.Template == nil || len(m.role.Template.Spec.Containers) == 0 {
		return container == v1.ContainerName || m.role.Template != nil && slices.ContainsFunc(m.role.Template.Spec.InitContainers, named)
	}
	return slices.ContainsFunc(m.role.Template.Spec.Containers, named) || slices.ContainsFunc(m.role.Template.Spec.InitContainers, named)
}

// endWithTheWork takes Pods for ended in which the containers of the template have ended for good, and only such still
// run as somebody else has added, a proxy of a service mesh, say: they would run, and hold the GPUs, for ever. Exit
// codes of the former decide.
func (d *decision) endWithTheWork() {
	for _, m := range d.members {
		if m.pod == nil || m.state != podRunning {
			continue
		}
		failed, ended := m.workEnded()
		if ended.IsZero() {
			continue
		}
		if left := ended.Add(lingering).Sub(d.Now); left > 0 && left <= lingering { // unless the node's clock is wrong
			d.requeueAfter(left)
			continue
		}
		if m.state = podSucceeded; failed {
			m.state = podFailed
		}
	}
}

// workEnded returns when the last container of the template ended in a Pod in which others still run, and whether one
// of them has failed; the zero time if that is not so.
func (m *member) workEnded() (failed bool, at time.Time) {
	others := false
	for i := range m.pod.Spec.Containers {
		container := &m.pod.Spec.Containers[i]
		status := podfacts.StatusOf(m.pod, container.Name)
		ended := status != nil && status.State.Terminated != nil && endsForGood(m.pod, container, status.State.Terminated)
		switch {
		case !m.isOwn(container.Name):
			others = others || !ended
		case !ended:
			return false, time.Time{}
		default:
			failed = failed || status.State.Terminated.ExitCode != 0
			if finished := status.State.Terminated.FinishedAt.Time; finished.After(at) {
				at = finished
			}
		}
	}
	if !others {
		return false, time.Time{}
	}
	return failed, podfacts.ServerTime(m.pod, at)
}

// endsForGood reports whether the kubelet does not restart a container that has ended.
func endsForGood(pod *corev1.Pod, container *corev1.Container, end *corev1.ContainerStateTerminated) bool {
	policy := pod.Spec.RestartPolicy
	if container.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*container.RestartPolicy)
	}
	switch {
	case policy == corev1.RestartPolicyAlways:
		return false
	case end.ExitCode == 0:
		return true
	default:
		return policy == corev1.RestartPolicyNever && len(container.RestartPolicyRules) == 0
	}
}

// countContainerRestarts fails a task, or an index of an array, if the kubelet has restarted containers of its Pods
// more often than failures are retried, those that the controller has answered included. The Pods that there are count.
func (d *decision) countContainerRestarts() {
	if d.isFailing() || d.hasSucceeded() || SuspensionRequested(d.Task) || d.isHeld() {
		return
	}
	total := d.status.Restarts
	var most *member
	for _, m := range d.members {
		restarts := d.containerRestarts(m)
		if restarts == 0 {
			continue
		}
		if total += restarts; most == nil || restarts > d.containerRestarts(most) {
			most = m
		}
		if limit := d.Task.Spec.BackoffLimitPerIndex; limit != nil && restarts+d.ownRestarts(m) > *limit {
			d.failIndex(m)
		}
	}
	if most == nil || d.isFailing() || d.Task.Spec.BackoffLimitPerIndex != nil || total <= d.backoffLimit() {
		return
	}
	d.setFailureTarget(v1.ReasonBackoffLimitExceeded,
		fmt.Sprintf("%s; no restarts are left (spec.backoffLimit is %d)", containerTrouble(most), d.backoffLimit()))
}

// ownRestarts returns how often a member was restarted by itself.
func (d *decision) ownRestarts(m *member) int32 {
	if at, found := findRestarts(d.status, m.index); found {
		return d.status.PodRestarts[at].Count
	}
	return 0
}

// containerRestarts returns how often the kubelet has restarted containers of a member's Pod that are of the template.
// Sidecars are meant to be restarted.
func (d *decision) containerRestarts(m *member) int32 {
	if m.pod == nil || m.stale || m.done() || m.state != podRunning && m.state != podPending {
		return 0
	}
	restarts := int32(0)
	for _, status := range slices.Concat(m.pod.Status.InitContainerStatuses, m.pod.Status.ContainerStatuses) {
		if m.isOwn(status.Name) && podfacts.RoleOf(m.pod, status.Name) != podfacts.Sidecar {
			restarts += status.RestartCount
		}
	}
	return restarts
}

// troubleText says what keeps a running Pod from its work, or from its end, as the continuation of a sentence: of the
// first that something does.
func (d *decision) troubleText() string {
	for _, m := range d.members {
		if m.runs() && !m.done() {
			if text := containerTrouble(m); text != "" {
				return "; " + text
			}
		}
	}
	return ""
}

// containerTrouble says which container of a member's Pod waits or was restarted, or that the work has ended while
// another one runs; "" if there is nothing like that.
func containerTrouble(m *member) string {
	pod := m.pod
	var ended, runs string
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		container := "container " + status.Name + " of " + podOnNode(pod)
		end := cmp.Or(status.State.Terminated, status.LastTerminationState.Terminated)
		switch waits := waitingText(&status); {
		case podfacts.RoleOf(pod, status.Name) == podfacts.Init && status.State.Terminated != nil && status.State.Terminated.ExitCode == 0: // done
		case status.RestartCount > 0:
			return container + restartedText(&status, end)
		case waits != "":
			return container + waits
		case end != nil && podfacts.RoleOf(pod, status.Name) == podfacts.Work:
			ended = fmt.Sprintf("%s has ended with exit code %d", container, end.ExitCode)
		case status.State.Running != nil && podfacts.RoleOf(pod, status.Name) == podfacts.Companion && runs == "":
			runs = status.Name
		}
	}
	if ended == "" || runs == "" {
		return ""
	}
	return ended + ", container " + runs + " still runs"
}

// waitingText says what a container waits for; "" if it does not, or if nobody says for what.
func waitingText(status *corev1.ContainerStatus) string {
	waiting := status.State.Waiting
	if waiting == nil || waiting.Reason == "" || waiting.Message == "" {
		return ""
	}
	return " waits: " + waiting.Reason + ": " + waiting.Message
}

// restartedText says how often a container was restarted, why, and what it waits for.
func restartedText(status *corev1.ContainerStatus, last *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf(" was restarted %d times", status.RestartCount)
	if status.RestartCount == 1 {
		text = " was restarted once"
	}
	if last != nil {
		text += fmt.Sprintf(", the last time after exit code %d", last.ExitCode)
		if last.Reason != "" && last.Reason != "Error" {
			text += " (" + last.Reason + ")"
		}
		if words := lastWords(last.Message); words != "" {
			text += ": " + words
		}
	}
	if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "" {
		text += ", and waits (" + waiting.Reason + ")"
	}
	return text
}
