// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// HasRoom reports whether the Pods fit on the nodes beside what runs there,
// each on a node other than its own. It looks at readiness, cordons, taints,
// selectors, affinity and requests; the scheduler, which looks at more, has the
// last word. First fit is enough for the equal Pods of one task.
func HasRoom(pods []*corev1.Pod, nodes []*corev1.Node, running []*corev1.Pod) bool {
	free := freeResources(nodes, running)
	for _, pod := range pods {
		if !reserve(pod, nodes, free) {
			return false
		}
	}
	return true
}

// freeResources returns what is left of each node's allocatable resources; the
// number of Pods counts as one.
func freeResources(nodes []*corev1.Node, running []*corev1.Pod) map[string]corev1.ResourceList {
	free := make(map[string]corev1.ResourceList, len(nodes))
	for _, node := range nodes {
		free[node.Name] = node.Status.Allocatable.DeepCopy()
	}
	for _, pod := range running {
		if left := free[pod.Spec.NodeName]; left != nil && !podEnded(pod) {
			subtract(left, requestsOf(pod))
		}
	}
	return free
}

// reserve takes the Pod's requests from the first node that has them.
func reserve(pod *corev1.Pod, nodes []*corev1.Node, free map[string]corev1.ResourceList) bool {
	requests := requestsOf(pod)
	for _, node := range nodes {
		if node.Name == pod.Spec.NodeName || !admits(node, pod) || !covers(free[node.Name], requests) {
			continue
		}
		subtract(free[node.Name], requests)
		return true
	}
	return false
}

func admits(node *corev1.Node, pod *corev1.Pod) bool {
	if node.Spec.Unschedulable || !nodeReady(node) {
		return false
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil || !matches {
		return false
	}
	_, untolerated := schedulinghelper.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations,
		func(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }, false)
	return !untolerated
}

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return requests
}

func covers(free, requests corev1.ResourceList) bool {
	for name, wanted := range requests {
		left, known := free[name]
		if wanted.IsZero() {
			continue
		}
		if !known || left.Cmp(wanted) < 0 {
			return false
		}
	}
	return true
}

func subtract(free, requests corev1.ResourceList) {
	for name, taken := range requests {
		left, known := free[name]
		if known {
			left.Sub(taken)
			free[name] = left
		}
	}
}
