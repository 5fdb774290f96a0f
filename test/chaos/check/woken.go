// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// InvariantWoken says that a task that waits starts soon after it can, whatever has made it possible. It is about tasks
// with LabelProbe: nobody else wants their node, so that it is certain that they can.
const InvariantWoken = "what can start is started"

// woken follows since when each Pod of a probe could have a node.
type woken struct {
	pods map[types.UID]*corev1.Pod
	// since is calm time.
	since map[types.UID]time.Duration
}

func newWoken() *woken {
	return &woken{pods: map[types.UID]*corev1.Pod{}, since: map[types.UID]time.Duration{}}
}

func (v *woken) take(w *world, s *step) {
	if s.pod != nil && s.pod.Labels[LabelProbe] != "" {
		keep(v.pods, s.pod.UID, s.pod, s.gone || !waitsForNode(s.pod))
	}
	for uid := range v.since {
		if v.pods[uid] == nil {
			delete(v.since, uid)
		}
	}
	for uid, pod := range v.pods {
		v.look(w, uid, pod)
	}
}

func (v *woken) look(w *world, uid types.UID, pod *corev1.Pod) {
	node := w.nodeFor(pod)
	if node == nil {
		delete(v.since, uid)
		return
	}
	since, known := v.since[uid]
	if !known {
		v.since[uid] = w.calm
		return
	}
	if waited := w.calm - since; waited > w.config.Wake {
		w.report(InvariantWoken, nameOf(pod), "the Pod has fitted on node %s for %v, and has no node: %s", node.Name, waited.Round(time.Second), unscheduledText(pod))
	}
}

func waitsForNode(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !hasEnded(pod) && len(pod.Spec.SchedulingGates) == 0
}

func unscheduledText(pod *corev1.Pod) string {
	if condition := conditionOf(pod, corev1.PodScheduled); condition != nil {
		return condition.Message
	}
	return "the scheduler has said nothing"
}

// nodeFor returns a node on which a Pod fits, with all others of its gang; nil if there is none.
func (w *world) nodeFor(pod *corev1.Pod) *corev1.Node {
	for _, node := range w.nodes {
		if isOpen(node, pod) && w.freeGPUs(node) >= requested(pod, v1.ResourceGPU)*gangSize(pod) {
			return node
		}
	}
	return nil
}

func gangSize(pod *corev1.Pod) int {
	if least, err := strconv.Atoi(pod.Labels[v1.LabelMinAvailable]); err == nil {
		return least
	}
	return 1
}

// isOpen reports whether a node takes a Pod, if there is room: it is ready, neither cordoned nor tainted, and has the
// labels that the Pod selects.
func isOpen(node *corev1.Node, pod *corev1.Pod) bool {
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	isReady := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return isReady && !node.Spec.Unschedulable && len(node.Spec.Taints) == 0
}

// freeGPUs returns how many GPUs of a node no Pod holds.
func (w *world) freeGPUs(node *corev1.Node) int {
	quantity := node.Status.Allocatable[v1.ResourceGPU]
	free := int(quantity.Value())
	for _, pod := range w.pods {
		if pod.Spec.NodeName == node.Name && holds(pod) {
			free -= requested(pod, v1.ResourceGPU)
		}
	}
	return free
}
