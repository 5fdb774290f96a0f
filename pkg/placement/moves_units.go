// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// unit is what moves together: a gang, or a Pod without one.
type unit struct {
	// index is the unit's position in the order of names.
	index int
	group string
	// pods are sorted, hardest to place first.
	pods    []resident
	movable bool
	// cost is that of moving all its Pods.
	cost float64
	// level is the level at which the unit has to be in a single domain; 0 for none.
	level int
	// out is true while the unit is part of a set of moves that is being tried.
	out bool
}

// resident is a Pod that runs on a node.
type resident struct {
	pod     *Pod
	node    *node
	request *Request
	cost    float64
}

// alike reports whether it makes no difference which of two units is moved.
func (u *unit) alike(other *unit) bool {
	return u.group == "" && other.group == "" && u.pods[0].request == other.pods[0].request && u.cost == other.cost
}

// percent returns the GPU capacity that a unit holds, in percent of one GPU.
func (u *unit) percent() int {
	sum := 0
	for i := range u.pods {
		sum += percentOf(u.pods[i].pod)
	}
	return sum
}

// percentOf returns the GPU capacity that a Pod holds, in percent of one GPU.
func percentOf(pod *Pod) int { return len(pod.GPUs) * pod.Percent }

// tenant is the Pods of a unit on one node.
type tenant struct {
	unit *unit
	uses []*Use
}

// tenancy indexes the units by the nodes that they run on.
type tenancy struct {
	units []*unit
	// on are the tenants of each node, by unit.
	on map[*node][]tenant
	// nodes are in the order of their names.
	nodes []*node
}

// tenants builds the index of all units, and determines which may be moved.
func (c *Cluster) tenants(rules *MoveRules) *tenancy {
	t := &tenancy{
		on:    make(map[*node][]tenant, len(c.nodes)),
		nodes: slices.SortedFunc(maps.Values(c.nodes), func(a, b *node) int { return cmp.Compare(a.Name, b.Name) }),
	}
	groups := map[string]*unit{}
	for _, pod := range c.sortedPods() {
		t.join(c, rules, groups, pod)
	}
	for _, u := range t.units {
		t.addToNodes(u)
	}
	return t
}

// sortedPods returns all Pods in the order of their names.
func (c *Cluster) sortedPods() []*Pod {
	return slices.SortedFunc(maps.Values(c.pods), func(a, b *Pod) int { return cmp.Compare(a.Name, b.Name) })
}

// join adds a Pod to its unit.
func (t *tenancy) join(c *Cluster, rules *MoveRules, groups map[string]*unit, pod *Pod) {
	group := ""
	if rules.Group != nil {
		group = rules.Group(pod)
	}
	u := groups[group]
	if group == "" || u == nil {
		u = &unit{index: len(t.units), group: group, movable: true}
		t.units = append(t.units, u)
	}
	if group != "" && groups[group] == nil {
		groups[group] = u
		if rules.Level != nil {
			u.level = rules.Level(group)
		}
	}
	mover := resident{pod: pod, node: c.nodes[pod.Node], request: c.requestOf(rules, pod), cost: rules.PerMove}
	if rules.Cost != nil {
		cost, movable := rules.Cost(pod)
		mover.cost += max(cost, 0)
		u.movable = u.movable && movable && !math.IsNaN(cost)
	}
	u.cost += mover.cost
	u.pods = append(u.pods, mover)
}

// requestOf returns what a running Pod needs on any node.
func (c *Cluster) requestOf(rules *MoveRules, pod *Pod) *Request {
	if rules.Shape != nil {
		return c.Request(rules.Shape(pod))
	}
	n := c.nodes[pod.Node]
	shape := Shape{CPU: pod.CPU, Memory: pod.Memory, Others: pod.Others, Pool: n.Pool, Selector: sameTraits(n.Traits)}
	if len(pod.GPUs) == 0 {
		return c.Request(shape)
	}
	shape.Models = []string{n.Model}
	if pod.Percent < Card && len(pod.GPUs) == 1 {
		shape.Share = pod.Percent
	} else {
		shape.GPUs = len(pod.GPUs)
	}
	shape.GPUMemory = math.MaxInt64
	for _, gpu := range pod.GPUs {
		if gpu < len(n.GPUs) {
			shape.GPUMemory = min(shape.GPUMemory, n.GPUs[gpu].Memory)
		}
	}
	return c.Request(shape)
}

// addToNodes adds a unit to the index of its nodes.
func (t *tenancy) addToNodes(u *unit) {
	slices.SortStableFunc(u.pods, func(a, b resident) int {
		return harder(demand{request: a.request}, demand{request: b.request})
	})
	for i := range u.pods {
		n := u.pods[i].node
		list := t.on[n]
		if len(list) == 0 || list[len(list)-1].unit != u {
			list = append(list, tenant{unit: u})
		}
		last := &list[len(list)-1]
		last.uses = append(last.uses, &u.pods[i].pod.Use)
		t.on[n] = list
	}
}
