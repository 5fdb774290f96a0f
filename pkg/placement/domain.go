// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
	"sort"
)

// Domain is a part of the cluster: all of it, or a zone, a rack, a leaf.
type Domain struct {
	// Name is the path of names, separated by slashes; empty for the cluster.
	Name  string
	Level int // 0 is the cluster
	// Children are the domains of the next level, in the order of their names.
	Children []*Domain
	parent   *Domain
	byName   map[string]*Domain
	// classes are the nodes by their State, in no order.
	classes []*class
	byState map[*State]*class
	nodes   int
	// version counts changes; room is how many Pods of each request, by its id,
	// there was room for at some version.
	version uint64
	room    []room
}

type room struct {
	version uint64
	pods    int
}

// class is the nodes of a domain that are in one State.
type class struct {
	state *State
	index int // in Domain.classes
	// nodes are in the order of their names.
	nodes []*node
}

func newDomain(name string, level int, parent *Domain) *Domain {
	return &Domain{Name: name, Level: level, parent: parent, byName: map[string]*Domain{}, byState: map[*State]*class{}}
}

// child returns the domain of a name below d.
func (d *Domain) child(name string) *Domain {
	if known := d.byName[name]; known != nil {
		return known
	}
	path := name
	if d.Level > 0 {
		path = d.Name + "/" + name
	}
	made := newDomain(path, d.Level+1, d)
	d.byName[name] = made
	at, _ := slices.BinarySearchFunc(d.Children, path, func(c *Domain, path string) int { return cmp.Compare(c.Name, path) })
	d.Children = slices.Insert(d.Children, at, made)
	return made
}

// add takes a node into d and all domains above.
func (d *Domain) add(n *node) {
	for ; d != nil; d = d.parent {
		d.classOf(n.state).add(n)
		d.nodes++
		d.version++
	}
}

// remove takes a node, which is in the given State, out of d and all domains
// above.
func (d *Domain) remove(n *node, state *State) {
	for ; d != nil; d = d.parent {
		members := d.byState[state]
		members.remove(n)
		d.nodes--
		d.version++
		if len(members.nodes) == 0 {
			d.drop(members)
		}
	}
}

func (d *Domain) classOf(state *State) *class {
	if known := d.byState[state]; known != nil {
		return known
	}
	made := &class{state: state, index: len(d.classes)}
	d.byState[state] = made
	d.classes = append(d.classes, made)
	state.users++
	return made
}

func (d *Domain) drop(gone *class) {
	last := len(d.classes) - 1
	d.classes[gone.index] = d.classes[last]
	d.classes[gone.index].index = gone.index
	d.classes[last] = nil
	d.classes = d.classes[:last]
	delete(d.byState, gone.state)
	gone.state.users--
}

// Room is how many Pods of a request the domain can take, if nothing else comes.
func (d *Domain) Room(r *Request) int {
	if r.id >= len(d.room) {
		d.room = slices.Grow(d.room, r.id+1-len(d.room))[:r.id+1]
	}
	known := &d.room[r.id]
	if known.version != d.version { // no domain with nodes has version 0
		*known = room{version: d.version}
		for _, members := range d.classes {
			known.pods += len(members.nodes) * members.state.often(r)
		}
	}
	return known.pods
}

// States calls do with each State of the domain's nodes and how many nodes are in
// it, in no order.
func (d *Domain) States(do func(state *State, nodes int)) {
	for _, members := range d.classes {
		do(members.state, len(members.nodes))
	}
}

func (c *class) search(n *node) int {
	return sort.Search(len(c.nodes), func(i int) bool { return c.nodes[i].Name >= n.Name })
}

func (c *class) add(n *node) {
	at := len(c.nodes)
	if at > 0 && c.nodes[at-1].Name > n.Name { // else it comes in order
		at = c.search(n)
	}
	c.nodes = slices.Insert(c.nodes, at, n)
}

func (c *class) remove(n *node) {
	if c.nodes[0] == n { // the usual case costs no copy
		c.nodes = c.nodes[1:]
		return
	}
	at := c.search(n)
	c.nodes = slices.Delete(c.nodes, at, at+1)
}
