// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	// LabelType with the value TypeKWOK makes KWOK simulate a node. Without the
	// label the node stops reporting, as if its kubelet had died.
	LabelType = "type"
	// TypeKWOK is LabelType's value.
	TypeKWOK = "kwok"
	// annotationKWOK marks simulated nodes, by KWOK's own convention.
	annotationKWOK = "kwok.x-k8s.io/node"

	architecture    = "amd64"
	operatingSystem = "linux"
	simulated       = "simulated"
	runtimeVersion  = "kwok://" + simulated
)

// ownLabels are the labels that Nodes sets.
var ownLabels = sets.New(
	corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable, LabelType,
	v1.LabelNodePool, v1.LabelLeaf,
)

// isAgentLabel reports whether the node agent writes a label.
func isAgentLabel(key string) bool {
	return key == v1.LabelGPUModel || strings.HasPrefix(key, v1.LabelGPUModel+"-") || strings.HasPrefix(key, v1.GroupName+"/mig-")
}

// firstAddress is the first of the nodes' addresses. They are fictitious, and
// overlap with neither Services nor Pods.
var firstAddress = netip.AddrFrom4([4]byte{10, 128, 0, 1})

// Nodes returns the Nodes of a valid profile, with the capacity that a device
// plugin would give them; the node agent adds the labels about GPUs. Equal
// profiles give equal Nodes.
func (p *Profile) Nodes(kubeletVersion string) []*corev1.Node {
	var nodes []*corev1.Node
	leaves := 0
	address := firstAddress
	for _, group := range p.NodeGroups {
		for i := range group.Count {
			node := group.node(i, kubeletVersion)
			if group.NodesPerLeaf > 0 {
				node.Labels[v1.LabelLeaf] = fmt.Sprintf("leaf-%d", leaves+i/group.NodesPerLeaf)
			}
			node.Status.Addresses = []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address.String()},
				{Type: corev1.NodeHostName, Address: node.Name},
			}
			address = address.Next()
			nodes = append(nodes, node)
		}
		leaves += group.leaves()
	}
	return nodes
}

func (g *NodeGroup) leaves() int {
	if g.NodesPerLeaf == 0 {
		return 0
	}
	return (g.Count + g.NodesPerLeaf - 1) / g.NodesPerLeaf
}

func (g *NodeGroup) node(index int, kubeletVersion string) *corev1.Node {
	name := g.nodeName(index)
	resources := g.resources()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      g.labels(name),
			Annotations: map[string]string{annotationKWOK: "fake"},
		},
		Spec: corev1.NodeSpec{Taints: slices.Clone(g.Taints)},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources.DeepCopy(),
			NodeInfo: corev1.NodeSystemInfo{
				OSImage:                 simulated,
				KernelVersion:           simulated,
				Architecture:            architecture,
				OperatingSystem:         operatingSystem,
				KubeletVersion:          kubeletVersion,
				ContainerRuntimeVersion: runtimeVersion,
			},
		},
	}
}

func (g *NodeGroup) labels(hostname string) map[string]string {
	labels := map[string]string{
		corev1.LabelHostname:   hostname,
		corev1.LabelOSStable:   operatingSystem,
		corev1.LabelArchStable: architecture,
		LabelType:              TypeKWOK,
	}
	maps.Copy(labels, g.Labels)
	if g.Pool != "" {
		labels[v1.LabelNodePool] = g.Pool
	}
	return labels
}

func (g *NodeGroup) resources() corev1.ResourceList {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    quantity(g.CPU),
		corev1.ResourceMemory: quantity(g.Memory),
		corev1.ResourcePods:   *resource.NewQuantity(int64(g.Pods), resource.DecimalSI),
	}
	maps.Copy(resources, g.gpuResources())
	return resources
}

// quantity parses a quantity that validate has accepted; any other is 0.
func quantity(text string) resource.Quantity {
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}
	}
	return parsed
}

// Count returns the number of nodes.
func (p *Profile) Count() int {
	count := 0
	for _, group := range p.NodeGroups {
		count += group.Count
	}
	return count
}
