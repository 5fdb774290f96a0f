// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"maps"
	"slices"
	"sort"
)

// Domain is a part of the cluster: all of it, or a zone, a rack, a leaf.
type Domain struct {
	// Name is the path of names, separated by slashes; empty for the cluster.
	Name  string
	Level int // 0 is the cluster
	// unnamed is true if it stands for nodes that are in no domain of the level.
	unnamed bool
	// Children are the domains of the next level, in the order of their names.
	Children []*Domain
	parent   *Domain
	byName   map[string]*Domain
	// classes are the nodes by their State, in no order.
	classes []*class
	byState map[*State]*class
	// idle are the classes of nodes with GPUs that are all free.
	idle  []*class
	spare []*class
	nodes int
	// percent is the sum of the free percentages of all GPUs.
	percent int
	// version counts changes; rooms caches how many Pods of a request fit at some
	// version.
	version uint64
	rooms   []room
}

type room struct {
	// request is the id of one; 0 if the slot is empty.
	request int
	version uint64
	pods    int
}

// maxSpare is how many dropped classes a domain keeps for reuse.
const maxSpare = 8

// maxRooms is the number of requests for which a domain caches its room, like maxOffers.
const maxRooms = 64

// class is the nodes of a domain that are in one State.
type class struct {
	state *State
	// index is the position in Domain.classes, idle that in Domain.idle.
	index, idle int
	// nodes are sorted by name. They are all[head:]: nodes are mostly removed at the
	// front, and added back there when a trial is undone.
	nodes []*node
	all   []*node
	head  int
}

func newDomain(name string, level int, parent *Domain) *Domain {
	return &Domain{Name: name, Level: level, parent: parent, byName: map[string]*Domain{}, byState: map[*State]*class{}}
}

// child returns the child with a name, which it creates if needed.
func (d *Domain) child(name string) *Domain {
	if known := d.byName[name]; known != nil {
		return known
	}
	path := name
	if d.Level > 0 {
		path = d.Name + "/" + name
	}
	made := newDomain(path, d.Level+1, d)
	made.unnamed = name == Unnamed
	d.byName[name] = made
	at, _ := slices.BinarySearchFunc(d.Children, path, func(c *Domain, path string) int { return cmp.Compare(c.Name, path) })
	d.Children = slices.Insert(d.Children, at, made)
	return made
}

// add adds a node to d and its ancestors.
func (d *Domain) add(n *node) {
	n.state.kind.percent += n.state.percent
	for ; d != nil; d = d.parent {
		d.classOf(n.state).add(n)
		d.nodes++
		d.percent += n.state.percent
		d.version++
	}
}

// remove removes a node, which is indexed under the given State, from d and its
// ancestors.
func (d *Domain) remove(n *node, state *State) {
	state.kind.percent -= state.percent
	for ; d != nil; d = d.parent {
		members := d.byState[state]
		members.remove(n)
		d.nodes--
		d.percent -= state.percent
		d.version++
		if len(members.nodes) == 0 {
			d.drop(members)
		}
	}
}

// prune removes d and its ancestors from the tree as long as they are empty.
func (d *Domain) prune() {
	for ; d.parent != nil && d.nodes == 0 && len(d.Children) == 0; d = d.parent {
		d.parent.Children = slices.DeleteFunc(d.parent.Children, func(child *Domain) bool { return child == d })
		maps.DeleteFunc(d.parent.byName, func(_ string, child *Domain) bool { return child == d })
	}
}

func (d *Domain) classOf(state *State) *class {
	if known := d.byState[state]; known != nil {
		return known
	}
	made := d.spareClass()
	made.state, made.index, made.idle = state, len(d.classes), len(d.idle)
	d.byState[state] = made
	d.classes = append(d.classes, made)
	if state.idle() {
		d.idle = append(d.idle, made)
	}
	state.users++
	return made
}

func (d *Domain) drop(gone *class) {
	last := len(d.classes) - 1
	d.classes[gone.index] = d.classes[last]
	d.classes[gone.index].index = gone.index
	d.classes[last] = nil
	d.classes = d.classes[:last]
	if gone.state.idle() {
		last := len(d.idle) - 1
		d.idle[gone.idle] = d.idle[last]
		d.idle[gone.idle].idle = gone.idle
		d.idle = d.idle[:last]
	}
	delete(d.byState, gone.state)
	gone.state.users--
	if len(d.spare) < maxSpare {
		*gone = class{all: gone.all[:0]}
		d.spare = append(d.spare, gone)
	}
}

// spareClass returns an empty class, a dropped one if possible: trials create and drop
// many.
func (d *Domain) spareClass() *class {
	last := len(d.spare) - 1
	if last < 0 {
		return &class{}
	}
	spare := d.spare[last]
	d.spare = d.spare[:last]
	return spare
}

// Room returns how many Pods of a request fit in the domain, if nothing else is placed.
func (d *Domain) Room(r *Request) int {
	known := slotOf(&d.rooms, r.id, maxRooms)
	if known.request != r.id || known.version != d.version {
		*known = room{request: r.id, version: d.version}
		if r.named() {
			for _, n := range d.namedNodes(r) {
				known.pods += n.capacity(r)
			}
			return known.pods
		}
		for _, members := range d.classes {
			known.pods += members.room(r)
		}
	}
	return known.pods
}

// States calls do with each State of the domain's nodes and the number of nodes in it, in
// no particular order.
func (d *Domain) States(do func(state *State, nodes int)) {
	for _, members := range d.classes {
		do(members.state, len(members.nodes))
	}
}

// Idle is like States, but only for nodes with GPUs that are all free.
func (d *Domain) Idle(do func(state *State, nodes int)) {
	for _, members := range d.idle {
		do(members.state, len(members.nodes))
	}
}

// Percent returns the free GPU capacity, in percent of one GPU.
func (d *Domain) Percent() int { return d.percent }

func (c *class) search(n *node) int {
	return sort.Search(len(c.nodes), func(i int) bool { return c.nodes[i].Name >= n.Name })
}

func (c *class) add(n *node) {
	at := len(c.nodes)
	switch {
	case at == 0 || c.nodes[at-1].Name < n.Name: // it becomes the last one
	case n.Name < c.nodes[0].Name:
		at = 0
	default:
		at = c.search(n)
	}
	if c.head == 0 && at < len(c.nodes)/2 {
		c.makeRoom()
	}
	if c.head > 0 && at <= len(c.nodes)/2 {
		c.head--
		c.nodes = c.all[c.head:]
		copy(c.nodes, c.nodes[1:at+1])
		c.nodes[at] = n
		return
	}
	if c.head > len(c.nodes) { // nodes removed at the front were not added back
		c.all = slices.Delete(c.all, 0, c.head)
		c.head = 0
	}
	c.all = slices.Insert(c.all, c.head+at, n)
	c.nodes = c.all[c.head:]
}

// makeRoom makes room at the front, as much as there are nodes: adding many nodes there then
// takes time in proportion to their number.
func (c *class) makeRoom() {
	c.head = len(c.nodes)
	all := make([]*node, 2*c.head)
	copy(all[c.head:], c.nodes)
	c.all, c.nodes = all, all[c.head:]
}

func (c *class) remove(n *node) {
	at := 0
	if c.nodes[0] != n {
		at = c.search(n)
	}
	if at <= len(c.nodes)/2 {
		copy(c.nodes[1:at+1], c.nodes[:at])
		c.nodes[0] = nil
		c.head++
	} else {
		c.all = slices.Delete(c.all, c.head+at, c.head+at+1)
	}
	c.nodes = c.all[c.head:]
}
