// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// HasRoom reports whether the Pods fit on the nodes besides what runs there, and not on the
// nodes that they leave. It considers what the engine knows: readiness, cordons, taints,
// selectors, GPUs, CPU and memory; the scheduler, which considers more, has the last word.
func HasRoom(pods []*corev1.Pod, nodes []*corev1.Node, running []*corev1.Pod) bool {
	view := snapshot.NodeView{}
	shapes := make(map[*corev1.Pod]placement.Shape, len(pods))
	var left []string
	for _, pod := range pods {
		shape, err := snapshot.Shape(pod)
		if err != nil {
			return false // no node can give what it asks for
		}
		shapes[pod] = shape
		left = append(left, pod.Spec.NodeName)
		view.Track(&shape)
	}
	open := make([]*corev1.Node, len(nodes))
	for i, node := range nodes {
		open[i] = snapshot.TaintUnlessReady(node)
	}
	cluster := view.Cluster(packing.New(packing.Default()), open, running)
	gang := snapshot.NewMembers(pods, func(pod *corev1.Pod) placement.Shape { return shapes[pod] }, nil, len(pods))
	gang.Except = left
	_, fits, err := cluster.Plan(&gang.Gang)
	return err == nil && fits
}
