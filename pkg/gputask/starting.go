// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// slowStart is after what time on a node a Pod that has not started is worth a sentence that says since when.
const slowStart = time.Minute

// boundAt returns since when a Pod has had its node, by the control plane's clock where that is known.
func boundAt(pod *corev1.Pod) time.Time {
	at, _ := podfacts.BoundAt(pod)
	return at
}

// isStarting reports whether the member's Pod has a node and has not started there.
func (m *member) isStarting() bool {
	return m.pod != nil && m.state == podPending && m.pod.Spec.NodeName != ""
}

// firstStarting returns the member whose Pod has been on its node for the longest time without starting, nil if there is none.
func (d *decision) firstStarting() *member {
	var first *member
	for i := range d.members {
		m := &d.members[i]
		if m.isStarting() && (first == nil || boundAt(m.pod).Before(boundAt(first.pod))) {
			first = m
		}
	}
	return first
}

// startingText returns which Pod is on its node without having started, and what it does there; "" if none is.
func (d *decision) startingText() string {
	m := d.firstStarting()
	if m == nil {
		return ""
	}
	state, missing := startState(m.pod)
	if !d.startsSlowly(m) {
		return fmt.Sprintf("%s: %s (%s)", d.podsWait(d.countNotRunning())+noCause, podOnNode(m.pod), state)
	}
	return fmt.Sprintf("%s: %s has not started since %s (%s): %s", d.podsWait(d.countNotRunning())+noCause,
		podOnNode(m.pod), utc(boundAt(m.pod)), state, missing)
}

// startsSlowly reports whether a starting member has had its node for a while.
func (d *decision) startsSlowly(m *member) bool {
	left := boundAt(m.pod).Add(slowStart).Sub(d.Now)
	if left > 0 {
		d.requeueAfter(left)
	}
	return left <= 0
}

// slowText is startingText if the Pod has been on its node for a while, else "".
func (d *decision) slowText() string {
	if m := d.firstStarting(); m == nil || !d.startsSlowly(m) {
		return ""
	}
	return d.startingText()
}

// startState returns what a Pod that has a node does there, in Kubernetes' word, and what is missing.
func startState(pod *corev1.Pod) (state, missing string) {
	if pod.Status.StartTime == nil && len(pod.Status.ContainerStatuses) == 0 {
		return "Scheduled", "the node has not begun with it"
	}
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if running := status.State.Running; running != nil && podfacts.RoleOf(pod, status.Name) != podfacts.Sidecar {
			return "PodInitializing", "its init container " + status.Name + " is running"
		}
	}
	state = "ContainerCreating"
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "" {
			state = waiting.Reason
			break
		}
	}
	switch ready := podfacts.Condition(pod, corev1.PodReadyToStartContainers); {
	case ready == nil:
		return state, "its volumes, network, devices or images are not ready; its Events say why"
	case ready.Status == corev1.ConditionTrue:
		return state, "its images or containers are not ready; its Events say why"
	default:
		return state, "its volumes, network or devices are not ready; its Events say why"
	}
}

// podOnNode names a Pod and its node.
func podOnNode(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "Pod " + pod.Name
	}
	return "Pod " + pod.Name + " on node " + pod.Spec.NodeName
}
