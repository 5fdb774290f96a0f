// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// commandsForPod returns what shows or mends what a Pod without a node waits for.
func commandsForPod(reason *v1.WaitingReason, pod *corev1.Pod) []string {
	in := " --namespace " + pod.Namespace
	switch {
	case OfReason(reason) != v1.TaskBlocked:
		return nil
	case reason.Reason == v1.WaitsForQueueAccess:
		return []string{"kubectl get gpuqueues"}
	case reason.Reason == v1.WaitsForClosedNodes:
		return commandsForClosed(reason)
	case isRefusedBy(reason, "VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits"):
		return []string{"kubectl get persistentvolumeclaims" + in}
	case isRefusedBy(reason, "DynamicResources", "GPUClaims"), reason.Reason == v1.WaitsForClaims:
		return []string{"kubectl get resourceclaims" + in}
	default:
		return []string{"kubectl describe pod " + pod.Name + in}
	}
}

// commandsForClosed returns what opens closed nodes: those that are cordoned can be uncordoned.
func commandsForClosed(reason *v1.WaitingReason) []string {
	command := "kubectl uncordon"
	for i := range reason.Nodes {
		if word, _ := placement.ReasonOf(reason.Nodes[i].Cause); word.Closed() && word != placement.NodeCordoned {
			command = "kubectl get nodes"
		}
	}
	for i := range reason.Remedies {
		if reason.Remedies[i].Kind == string(placement.OpenNodes) {
			command += " " + strings.Join(reason.Remedies[i].Nodes, " ")
		}
	}
	return []string{command}
}

// isRefusedBy reports whether one of some plugins of kube-scheduler refuses nodes that have room.
func isRefusedBy(reason *v1.WaitingReason, plugins ...string) bool {
	return slices.ContainsFunc(reason.Nodes, func(nodes v1.WaitingNodes) bool { return slices.Contains(plugins, nodes.Cause) })
}

// commandsFor returns what shows or mends what a task waits for before its Pods wait for nodes, or once they have some.
func commandsFor(task *v1.GPUTask, pods []*corev1.Pod) []string {
	in := " --namespace " + task.Namespace
	switch {
	case task.Spec.Suspend != nil && *task.Spec.Suspend:
		return []string{"kubectl gputask resume " + task.Name + in}
	case task.Status.Phase == v1.PhaseWaiting:
		return []string{"kubectl gputask list" + in}
	case meta.IsStatusConditionFalse(task.Status.Conditions, v1.ConditionNodesReachable):
		return []string{"kubectl get nodes"}
	}
	for _, pod := range pods {
		if podfacts.WaitsFor(pod) != nil {
			return []string{"kubectl describe pod " + pod.Name + in}
		}
	}
	return nil
}

// commandsForRefusal returns what shows why Pods can't be created.
func commandsForRefusal(reason, namespace string) []string {
	switch {
	case strings.Contains(reason, "Quota"):
		return []string{"kubectl describe resourcequotas --namespace " + namespace}
	case strings.Contains(reason, "PriorityClass"):
		return []string{"kubectl get priorityclasses"}
	case strings.Contains(reason, "Queue"), strings.Contains(reason, "Namespace"):
		return []string{"kubectl get gpuqueues"}
	default:
		return nil
	}
}
