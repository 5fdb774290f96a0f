// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

const (
	// slowStop is how long a node may take to confirm that a Pod has stopped whose time to do so is over, before somebody
	// looks whether the node is unreachable.
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

// leaveUnreachableNodes requests the forced deletion of Pods that should have stopped, and whose
// node has been unreachable for as long as the task says, or all tasks do. It reports those that have to wait, and those that
// are supposed to run on such nodes.
func (d *decision) leaveUnreachableNodes() {
	timeout, check := d.unreachableTimeout(), unreachableReport
	if timeout != nil {
		check = unreachableCheck
	}
	var kept, silent []*corev1.Pod
	for _, pod := range d.Pods {
		state := outcomeOf(pod)
		if isSilent(pod) {
			if _, unreachable := d.unreachableSince(pod.Spec.NodeName); unreachable {
				d.requeueAfter(unreachableReport)
				silent = append(silent, pod)
			}
		}
		if !state.isLeaving() || pod.Spec.NodeName == "" {
			continue
		}
		if left := pod.DeletionTimestamp.Add(slowStop).Sub(d.Now); left >= 0 {
			d.requeueAfter(left)
			continue
		}
		d.requeueAfter(check)
		since, unreachable := d.unreachableSince(pod.Spec.NodeName)
		switch {
		case !unreachable:
		case timeout != nil && d.Now.Sub(since) >= *timeout:
			d.plan.ForceDelete = append(d.plan.ForceDelete, pod)
		case state == podTerminating: // what has stopped does not run there
			kept = append(kept, pod)
		}
	}
	switch {
	case len(kept) > 0:
		d.reportKeptPods(kept, timeout)
	case len(silent) > 0:
		d.silent = d.mayStillRun(silent)
		d.setCondition(v1.ConditionNodesReachable, metav1.ConditionFalse, reasonNodeUnreachable, d.silent)
	default:
		d.setConditionIfPresent(v1.ConditionNodesReachable, metav1.ConditionTrue, reasonNodesReachable)
	}
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

func (d *decision) unreachableSince(node string) (since time.Time, unreachable bool) {
	if d.UnreachableSince == nil {
		return time.Time{}, false
	}
	return d.UnreachableSince(node)
}

// reportKeptPods says which Pods are kept, as their nodes are unreachable, and what ends that.
func (d *decision) reportKeptPods(kept []*corev1.Pod, timeout *time.Duration) {
	limit := "; spec.unreachableNodeTimeoutSeconds can set a limit"
	if timeout != nil {
		since, _ := d.unreachableSince(kept[0].Spec.NodeName)
		limit = ", at most until " + utc(since.Add(*timeout)) + " (unreachableNodeTimeoutSeconds)"
	}
	d.unreachable = fmt.Sprintf("%s: it is kept until the node answers, is deleted or has the taint %s%s",
		d.mayStillRun(kept), corev1.TaintNodeOutOfService, limit)
	d.setCondition(v1.ConditionNodesReachable, metav1.ConditionFalse, reasonNodeUnreachable, d.unreachable)
}

// mayStillRun says since when the node of the first of some Pods has not answered.
func (d *decision) mayStillRun(pods []*corev1.Pod) string {
	first := pods[0]
	since, _ := d.unreachableSince(first.Spec.NodeName)
	others := ""
	switch more := len(pods) - 1; {
	case more == 1:
		others = " (so may 1 other Pod of the task on such a node)"
	case more > 1:
		others = fmt.Sprintf(" (so may %d other Pods of the task on such nodes)", more)
	}
	return fmt.Sprintf("node %s has not answered since %s, and Pod %s may still run there%s", first.Spec.NodeName, utc(since), first.Name, others)
}

func utc(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }

// untilStopped says that Pods have to stop, and why they don't if their nodes are unreachable.
func (d *decision) untilStopped(active int) string {
	text := fmt.Sprintf("waiting for %s to stop", podCount(active))
	if d.unreachable == "" {
		return text
	}
	return text + ": " + d.unreachable
}

// MayBeUnreachable reports whether something about a Pod suggests that its node is unreachable: the Pod should have stopped a while
// ago, and its node has not confirmed that it has, or it is silent.
func MayBeUnreachable(pod *corev1.Pod, now time.Time) bool {
	return isSilent(pod) || pod.Spec.NodeName != "" && outcomeOf(pod).isLeaving() && pod.DeletionTimestamp.Add(slowStop).Before(now)
}

// isSilent reports whether a Pod runs as far as anybody knows, and is not ready although its containers are. Kubernetes says so of all
// Pods of a node of which it does not hear any more.
func isSilent(pod *corev1.Pod) bool {
	ready := podfacts.Condition(pod, corev1.PodReady)
	return outcomeOf(pod) == podRunning && ready != nil && ready.Status == corev1.ConditionFalse &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return !s.Ready })
}
