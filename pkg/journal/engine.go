// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// NodeOf returns a node of the engine as it is written.
func NodeOf(n *placement.Node) *Node {
	node := &Node{
		Name: n.Name, CPU: n.CPU, Memory: n.Memory, Slots: n.Slots, Others: n.Others.Map(), Hostname: n.Hostname, Model: n.Model, Pool: n.Pool,
		Traits: n.Traits, Domains: n.Domains, Closed: n.Closed,
	}
	for i := range n.GPUs {
		if i > 0 && n.GPUs[i] == n.GPUs[i-1] {
			node.GPUs[len(node.GPUs)-1].Count++
			continue
		}
		gpu := &n.GPUs[i]
		node.GPUs = append(node.GPUs, GPUs{Count: 1, Memory: gpu.Memory, Group: gpu.Group, NUMA: gpu.NUMA, Broken: gpu.Broken})
	}
	return node
}

// Engine returns a node as the engine has it.
func (n *Node) Engine() placement.Node {
	node := placement.Node{
		Name: n.Name, CPU: n.CPU, Memory: n.Memory, Slots: n.Slots, Others: placement.NewAmounts(n.Others), Hostname: n.Hostname, Model: n.Model,
		Pool: n.Pool, Traits: n.Traits, Domains: n.Domains, Closed: n.Closed,
	}
	for _, some := range n.GPUs {
		for range min(some.Count, placement.MaxCards+1-len(node.GPUs)) { // the engine refuses a node with more
			node.GPUs = append(node.GPUs, placement.GPU{Memory: some.Memory, Group: some.Group, NUMA: some.NUMA, Broken: some.Broken})
		}
	}
	return node
}

// PodOf returns a Pod of the engine as it is written.
func PodOf(p *placement.Pod) *Pod {
	return &Pod{
		Name: p.Name, Node: p.Node, CPU: p.CPU, Memory: p.Memory, Others: p.Others.Map(), GPUs: p.GPUs, Percent: p.Percent, NoSlot: p.NoSlot,
	}
}

// Engine returns a Pod as the engine has it.
func (p *Pod) Engine() placement.Pod {
	return placement.Pod{Name: p.Name, Node: p.Node, Use: placement.Use{
		CPU: p.CPU, Memory: p.Memory, Others: placement.NewAmounts(p.Others), GPUs: p.GPUs, Percent: p.Percent, NoSlot: p.NoSlot,
	}}
}

// ShapeOf returns a shape of the engine as it is written. Its selector and preference are those of package snapshot.
func ShapeOf(s *placement.Shape) *Shape {
	shape := &Shape{
		CPU: s.CPU, Memory: s.Memory, Others: s.Others.Map(), GPUs: s.GPUs, Share: s.Share, Models: s.Models, GPUMemory: s.GPUMemory, Pool: s.Pool,
	}
	if s.Selector != nil {
		shape.Selector = s.Selector.Key()
	}
	if s.Preference != nil {
		shape.Preference = s.Preference.Key()
	}
	for i := range s.Nodes {
		shape.Nodes = append(shape.Nodes, NodeRule(s.Nodes[i]))
	}
	return shape
}

// Engine returns a shape as the engine has it.
func (s *Shape) Engine() (placement.Shape, error) {
	shape := placement.Shape{
		CPU: s.CPU, Memory: s.Memory, Others: placement.NewAmounts(s.Others), GPUs: s.GPUs, Share: s.Share, Models: s.Models, GPUMemory: s.GPUMemory, Pool: s.Pool,
	}
	if s.Selector != "" {
		selector, err := snapshot.SelectorOf(s.Selector)
		if err != nil {
			return shape, err
		}
		shape.Selector = selector
	}
	if s.Preference != "" {
		preference, err := snapshot.PreferenceOf(s.Preference)
		if err != nil {
			return shape, err
		}
		shape.Preference = preference
	}
	for _, rule := range s.Nodes {
		shape.Nodes = append(shape.Nodes, placement.NodeRule(rule))
	}
	return shape, nil
}

// MemoryOf returns what a policy has learned as it is written.
func MemoryOf(m *packing.Memory) *Memory {
	memory := &Memory{
		Unit: m.Unit, Seen: m.Seen, RefreshAt: m.RefreshAt, CPUPerPercent: m.CPUPerPercent, WholeNodes: m.WholeNodes, LargestCPU: m.LargestCPU,
		Turnover: m.Turnover, WholeNodeCPU: m.WholeNodeCPU, Cards: m.Cards, Worth: m.Worth, Futures: m.Futures, Scarcity: m.Scarcity,
	}
	for i := range m.Shapes {
		memory.Shapes = append(memory.Shapes, ShapeOf(&m.Shapes[i]))
	}
	for _, one := range m.Mix {
		memory.Mix = append(memory.Mix, Remembered(one))
	}
	for i := range m.Groups {
		group := Group{Dependent: m.Groups[i].Dependent}
		for j := range m.Groups[i].Kinds {
			group.Kinds = append(group.Kinds, NodeOf(&m.Groups[i].Kinds[j]))
		}
		memory.Groups = append(memory.Groups, group)
	}
	return memory
}

// Engine returns what a policy had learned.
func (m *Memory) Engine() (*packing.Memory, error) {
	memory := &packing.Memory{
		Unit: m.Unit, Seen: m.Seen, RefreshAt: m.RefreshAt, CPUPerPercent: m.CPUPerPercent, WholeNodes: m.WholeNodes, LargestCPU: m.LargestCPU,
		Turnover: m.Turnover, WholeNodeCPU: m.WholeNodeCPU, Cards: m.Cards, Worth: m.Worth, Futures: m.Futures, Scarcity: m.Scarcity,
	}
	for i, one := range m.Shapes {
		if one == nil {
			return nil, fmt.Errorf("shapes[%d]: is missing", i)
		}
		shape, err := one.Engine()
		if err != nil {
			return nil, fmt.Errorf("shapes[%d]: %w", i, err)
		}
		memory.Shapes = append(memory.Shapes, shape)
	}
	for _, one := range m.Mix {
		memory.Mix = append(memory.Mix, packing.Remembered(one))
	}
	for i := range m.Groups {
		group := packing.RememberedGroup{Dependent: m.Groups[i].Dependent}
		for _, kind := range m.Groups[i].Kinds {
			if kind != nil {
				group.Kinds = append(group.Kinds, kind.Engine())
			}
		}
		memory.Groups = append(memory.Groups, group)
	}
	return memory, nil
}
