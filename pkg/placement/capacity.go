// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// Capacity is how much of the free capacity Pods of a shape can use.
type Capacity struct {
	// Pods is how many of them fit, if nothing else is placed.
	Pods int
	// Stranded is the free GPU capacity on nodes that such Pods may run on but that they
	// nevertheless can't use, in percent of one GPU.
	Stranded int
	// Largest is the domain with the most room for each level, from 0, the cluster.
	Largest []LargestDomain
}

// LargestDomain is the domain of a level with room for the most Pods of a shape.
type LargestDomain struct {
	// Domain is its name; the first among equals.
	Domain string
	// Pods is how many fit: the size of the largest gang.
	Pods int
}

// Capacity measures how much of the free capacity a shape can use, in the cluster and in
// the domains down to a level.
func (c *Cluster) Capacity(shape Shape, levels int) Capacity {
	request := c.Request(shape)
	free := 0
	c.root.States(func(state *State, nodes int) {
		if state.Accepts(request) && !state.Closed() {
			free += nodes * state.Percent()
		}
	})
	measured := Capacity{Pods: c.root.Room(request), Largest: make([]LargestDomain, levels+1)}
	measured.Stranded = max(0, free-measured.Pods*shape.Percent())
	c.root.Each(func(domain *Domain) {
		if domain.Level > levels || domain.unnamed {
			return
		}
		largest := &measured.Largest[domain.Level]
		if pods := domain.Room(request); pods > largest.Pods {
			*largest = LargestDomain{Domain: domain.Name, Pods: pods}
		}
	})
	return measured
}

// RoomOn returns how many Pods of a request fit on one node, if nothing else is placed; 0
// for an unknown node.
func (c *Cluster) RoomOn(node string, r *Request) int {
	n := c.nodes[node]
	if n == nil {
		return 0
	}
	return n.capacity(r)
}

// FreeOn returns how much of one of Node.Others is free on a node: less than 0 if more is held than it
// has, and 0 if it has none.
func (c *Cluster) FreeOn(node, resource string) int64 {
	n := c.nodes[node]
	if n == nil {
		return 0
	}
	at, none := n.layout.kind.index(resource, 0)
	if none {
		return 0
	}
	return n.others[at]
}

// Each calls do with d and all domains within it, parents first.
func (d *Domain) Each(do func(*Domain)) {
	do(d)
	for _, child := range d.Children {
		child.Each(do)
	}
}

// CardState is how a GPU of a node is used.
type CardState struct {
	// Free is its free percentage; negative if it is overcommitted.
	Free int
	// Broken GPUs are not allocated, however much of them is free.
	Broken bool
}

// CardStates returns how the GPUs of a node are used, by their index; nil for an unknown
// node.
func (c *Cluster) CardStates(name string) []CardState {
	return c.AppendCardStates(nil, name)
}

// AppendCardStates appends how the GPUs of a node are used, by their index, to a list; nothing for an unknown node.
func (c *Cluster) AppendCardStates(list []CardState, name string) []CardState {
	n := c.nodes[name]
	if n == nil {
		return list
	}
	for i := range n.GPUs {
		list = append(list, CardState{Free: int(n.free[i]), Broken: n.GPUs[i].Broken})
	}
	return list
}
