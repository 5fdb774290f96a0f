// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

const (
	// slowStop is how long a node may take to confirm that a Pod has stopped whose time to do so is over, before
	// somebody looks whether the node is unreachable.
	slowStop = 10 * time.Second
	// unreachableCheck is how often to look at that for tasks that leave unreachable nodes, and
	// unreachableReport for those that only report them.
	unreachableCheck  = 10 * time.Second
	unreachableReport = time.Minute
)

// Reasons of the condition NodesReachable.
const (
	reasonNodeUnreachable = "NodeUnreachable"
	reasonNodesReachable  = "NodesReachable"
)

// leaveUnreachableNodes requests the forced deletion of Pods that should have stopped, and whose node has been
// unreachable for as long as the task says, or all tasks do. It reports those that have to wait, and those that are
// supposed to run on such nodes, or on others that are not ready.
func (d *decision) leaveUnreachableNodes() {
	overdue, quiet := d.overduePods(), d.quietPods()
	d.overdue, d.quiet = d.mayStillRun(overdue), d.mayStillRun(quiet)
	lost, unheard := d.onSilentNodes(overdue), d.onSilentNodes(quiet)
	if len(lost) > 0 {
		d.overdue = d.lostText(lost)
	}
	if len(unheard) > 0 {
		d.quiet = d.mayStillRun(unheard)
	}
	switch {
	case len(lost) > 0:
		d.setCondition(v1.ConditionNodesReachable, metav1.ConditionFalse, reasonNodeUnreachable, d.overdue)
	case len(unheard) > 0:
		d.setCondition(v1.ConditionNodesReachable, metav1.ConditionFalse, reasonNodeUnreachable, d.quiet)
	default:
		d.setConditionIfPresent(v1.ConditionNodesReachable, metav1.ConditionTrue, reasonNodesReachable)
	}
}

// overduePods returns the Pods that should have stopped and may still run, since their nodes are not ready. It requests
// the forced deletion of others.
func (d *decision) overduePods() []*corev1.Pod {
	timeout, check := d.unreachableTimeout(), unreachableReport
	if timeout != nil {
		check = unreachableCheck
	}
	var overdue []*corev1.Pod
	for _, pod := range d.Pods {
		state := outcomeOf(pod)
		if !state.isLeaving() || pod.Spec.NodeName == "" {
			continue
		}
		if left := pod.DeletionTimestamp.Add(slowStop).Sub(d.Now); left >= 0 {
			d.requeueAfter(left)
			continue
		}
		d.requeueAfter(check)
		switch node := d.NotReady[pod.Spec.NodeName]; {
		case node == nil:
		case node.Silent && timeout != nil && d.Now.Sub(node.Since) >= *timeout:
			d.plan.ForceDelete = append(d.plan.ForceDelete, pod)
		case state == podTerminating: // what has stopped does not run there
			overdue = append(overdue, pod)
		}
	}
	return overdue
}

// quietPods returns the Pods that run as far as anybody knows, on nodes that are not ready. When a node does not begin
// with a Pod, it may not be ready, either: that has to be looked at again.
func (d *decision) quietPods() []*corev1.Pod {
	var quiet []*corev1.Pod
	for _, pod := range d.Pods {
		if isQuiet(pod) && d.NotReady[pod.Spec.NodeName] != nil {
			d.requeueAfter(unreachableReport)
			quiet = append(quiet, pod)
		}
		if isUnseen(pod, d.Now) {
			d.requeueAfter(unreachableReport)
		}
	}
	return quiet
}

// onSilentNodes returns those Pods whose nodes do not answer. Other nodes say themselves that they are not ready.
func (d *decision) onSilentNodes(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !d.NotReady[pod.Spec.NodeName].Silent })
}

// unreachableTimeout returns how long a node must have been unreachable before Pods on it are deleted
// by force; nil for ever.
func (d *decision) unreachableTimeout() *time.Duration {
	seconds := cmp.Or(d.Task.Spec.UnreachableNodeTimeoutSeconds, d.Config.UnreachableNodeTimeoutSeconds)
	if seconds == nil {
		return nil
	}
	return new(time.Duration(*seconds) * time.Second)
}

// notReadyText says since when a node has not been ready; "" if it is, as far as anybody knows.
func (d *decision) notReadyText(name string) string {
	switch node := d.NotReady[name]; {
	case node == nil:
		return ""
	case node.Silent:
		return fmt.Sprintf("node %s has not answered since %s", name, timeText(node.Since))
	default:
		text := fmt.Sprintf("node %s has not been ready since %s", name, timeText(node.Since))
		if node.Message != "" {
			text += " (" + shorten(withoutAges(node.Message)) + ")"
		}
		return text
	}
}

// withoutAges leaves out of a message how long ago something was: nodes say it each time, and each time something else.
func withoutAges(message string) string {
	words := strings.Fields(message)
	for i := range len(words) - 1 {
		if _, err := time.ParseDuration(words[i]); err == nil && strings.HasPrefix(words[i+1], "ago") {
			words[i] = "a while"
		}
	}
	return strings.Join(words, " ")
}

// lostText says which Pods are kept, as their nodes are unreachable, and what ends that.
func (d *decision) lostText(lost []*corev1.Pod) string {
	limit := "; spec.unreachableNodeTimeoutSeconds can set a limit"
	if timeout := d.unreachableTimeout(); timeout != nil {
		since := d.NotReady[lost[0].Spec.NodeName].Since
		limit = ", at most until " + timeText(since.Add(*timeout)) + " (unreachableNodeTimeoutSeconds)"
	}
	return fmt.Sprintf("%s: it is kept until the node answers, is deleted or has the taint %s%s",
		d.mayStillRun(lost), corev1.TaintNodeOutOfService, limit)
}

// mayStillRun says since when the node of the first of some Pods has not been ready; "" without Pods.
func (d *decision) mayStillRun(pods []*corev1.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	first := pods[0]
	others := ""
	switch more := len(pods) - 1; {
	case more == 1:
		others = " (so may 1 other Pod of the task on such a node)"
	case more > 1:
		others = fmt.Sprintf(" (so may %d other Pods of the task on such nodes)", more)
	}
	return fmt.Sprintf("%s, and Pod %s may still run there%s", d.notReadyText(first.Spec.NodeName), first.Name, others)
}

// untilStopped says that Pods have to stop, and why they don't if their nodes are unreachable.
func (d *decision) untilStopped(active int) string {
	text := fmt.Sprintf("waiting for %s to stop", plural.Count(active, "Pod"))
	if d.overdue == "" {
		return text
	}
	return text + ": " + d.overdue
}

// NodeMayBeNotReady reports whether something about a Pod suggests that its node is not ready: the Pod should have
// stopped a while ago, and its node has not confirmed that it has, or it is quiet, or its node has not begun with it.
func NodeMayBeNotReady(pod *corev1.Pod, now time.Time) bool {
	return isQuiet(pod) || isUnseen(pod, now) ||
		pod.Spec.NodeName != "" && outcomeOf(pod).isLeaving() && pod.DeletionTimestamp.Add(slowStop).Before(now)
}

// isUnseen reports whether a Pod has had a node for a while, which has not begun with it.
func isUnseen(pod *corev1.Pod, now time.Time) bool {
	return outcomeOf(pod) == podPending && pod.Spec.NodeName != "" && hasNotBegun(pod) && !boundAt(pod).Add(slowStart).After(now)
}

// isQuiet reports whether a Pod runs as far as anybody knows, and is not ready although its containers are. Kubernetes
// says so of all Pods of a node of which it does not hear any more.
func isQuiet(pod *corev1.Pod) bool {
	ready := podfacts.Condition(pod, corev1.PodReady)
	return outcomeOf(pod) == podRunning && ready != nil && ready.Status == corev1.ConditionFalse &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return !s.Ready })
}
