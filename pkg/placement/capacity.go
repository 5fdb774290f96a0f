// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// Capacity is what Pods of a shape can use of what is free.
type Capacity struct {
	// Pods is how many of them there is room for, if nothing else comes.
	Pods int
	// Stranded is what is free of GPUs on nodes that such Pods may run on and they
	// can't use all the same, in percent of one GPU.
	Stranded int
	// Largest is, for each level from 0, the cluster, the domain with the most room.
	Largest []Roomiest
}

// Roomiest is the domain of a level with room for the most Pods of a shape.
type Roomiest struct {
	// Domain is its name; of several the first.
	Domain string
	// Pods is how many there is room for: the largest gang.
	Pods int
}

// Capacity measures what a shape can use of what is free, in the cluster and in the
// domains of so many levels.
func (c *Cluster) Capacity(shape Shape, levels int) Capacity {
	request := c.Request(shape)
	free := 0
	c.root.States(func(state *State, nodes int) {
		if state.Accepts(request) && !state.Closed() {
			free += nodes * state.Percent()
		}
	})
	measured := Capacity{Pods: c.root.Room(request), Largest: make([]Roomiest, levels+1)}
	measured.Stranded = max(0, free-measured.Pods*shape.Percent())
	c.root.Each(func(domain *Domain) {
		if domain.Level > levels {
			return
		}
		largest := &measured.Largest[domain.Level]
		if pods := domain.Room(request); pods > largest.Pods {
			*largest = Roomiest{Domain: domain.Name, Pods: pods}
		}
	})
	return measured
}

// Each calls do with a domain and all domains within it, the wider ones first.
func (d *Domain) Each(do func(*Domain)) {
	do(d)
	for _, child := range d.Children {
		child.Each(do)
	}
}

// CardState is how a GPU of a node is used.
type CardState struct {
	// Free is what is free of it, in percent; less than 0 if more is used than there
	// is.
	Free int
	// Broken GPUs are not given to anybody, whatever is free of them.
	Broken bool
}

// CardStates returns how the GPUs of a node are used, by their index; nothing for a
// node that is not there.
func (c *Cluster) CardStates(name string) []CardState {
	n := c.nodes[name]
	if n == nil {
		return nil
	}
	cards := make([]CardState, len(n.GPUs))
	for i := range n.GPUs {
		cards[i] = CardState{Free: int(n.free[i]), Broken: n.GPUs[i].Broken}
	}
	return cards
}
