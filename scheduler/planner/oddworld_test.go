// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// rackLabel is that of the level between zones and leaves.
const rackLabel = v1.GroupName + "/rack"

// oddWorld is a random cluster of nodes as few people have them all at once: racks of 72 GPUs and cards that are
// offered a hundred times, nodes without GPUs, without room for Pods or CPU, cordoned and tainted ones, of several
// models or none, and with labels of some levels of the topology only. The gang's members differ in their GPUs, models
// and tolerations; some have no GPUs.
func oddWorld(dice *rand.Rand) *world {
	w := &world{}
	for i := range 2 + dice.IntN(smallWorld-1) {
		node := oddNode(dice, fmt.Sprintf("n%d", i))
		w.nodes = append(w.nodes, node)
		if dice.IntN(3) == 0 {
			w.running = append(w.running, w.randomRunning(dice, fmt.Sprintf("r%d", i), node))
		}
	}
	w.addVolumes()
	w.randomGang(dice, 2, 3)
	roles := map[string]func(*corev1.Pod){}
	for _, member := range w.gang {
		role := member.Annotations[classAnnotation]
		if roles[role] == nil {
			roles[role] = oddNeeds(dice)
		}
		roles[role](member)
	}
	if dice.IntN(3) == 0 {
		w.keepTogether(dice)
	}
	return w
}

// oddNode returns a node of random shape.
func oddNode(dice *rand.Rand, name string) *corev1.Node {
	node := randomNode(dice, name)
	offers, gpus := node.Status.Allocatable, []int{0, 2, 4, 8, 72, 72, 100}[dice.IntN(7)]
	offers[v1.ResourceGPU] = resource.MustParse(strconv.Itoa(gpus))
	for _, label := range []string{zoneLabel, rackLabel, v1.LabelLeaf, v1.LabelGPUModel} {
		delete(node.Labels, label)
		if value := []string{"x", "x", "x", "y", ""}[dice.IntN(5)]; value != "" {
			node.Labels[label] = value
		}
	}
	switch dice.IntN(10) {
	case 0:
		offers[corev1.ResourcePods] = resource.MustParse(strconv.Itoa(dice.IntN(3)))
	case 1:
		offers[corev1.ResourceCPU] = resource.MustParse(strconv.Itoa(dice.IntN(3)))
	case 2:
		delete(offers, v1.ResourceGPU)
		offers[v1.ResourceNVIDIAGPU] = resource.MustParse(strconv.Itoa(gpus))
	case 3:
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: v1.ResourceGPU.String(), Value: "present", Effect: corev1.TaintEffectNoExecute})
	case 4:
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule})
	}
	if dice.IntN(8) == 0 {
		node.Spec.Unschedulable = true
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	return node
}

// oddNeeds returns what the Pods of a role need that those of others may not.
func oddNeeds(dice *rand.Rand) func(*corev1.Pod) {
	gpus, model, foreign := []int{0, 1, 1, 2, 3, 8, 40, 65}[dice.IntN(8)], []string{"", "", "", "", "x"}[dice.IntN(5)], dice.IntN(12) == 0
	toleratesCordon, toleratesAll := dice.IntN(2) == 0, dice.IntN(6) == 0
	return func(p *corev1.Pod) {
		requests := p.Spec.Containers[0].Resources.Requests
		requests[v1.ResourceGPU] = resource.MustParse(strconv.Itoa(gpus))
		switch {
		case gpus == 0:
			delete(requests, v1.ResourceGPU)
		case foreign:
			asNVIDIA(p)
		}
		if model != "" {
			p.Spec.NodeSelector = map[string]string{v1.LabelGPUModel: model}
		}
		if toleratesCordon {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists})
		}
		if toleratesAll {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}
	}
}

// keepTogether makes the gang need one domain of a random level.
func (w *world) keepTogether(dice *rand.Rand) {
	level := []string{"zone", "rack", "leaf"}[dice.IntN(3)]
	w.together = map[string]string{"zone": zoneLabel, "rack": rackLabel, "leaf": v1.LabelLeaf}[level]
	for _, member := range w.gang {
		metav1.SetMetaDataAnnotation(&member.ObjectMeta, v1.AnnotationTopologyLevel, level)
		metav1.SetMetaDataAnnotation(&member.ObjectMeta, v1.AnnotationTopologyMode, string(v1.TopologyRequired))
	}
}
