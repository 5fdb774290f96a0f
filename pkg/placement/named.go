// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// NodeRule restricts a Shape to some nodes by name, or keeps it off some. It is not part
// of a Selector because names would make the Traits of all nodes different.
type NodeRule struct {
	// Hostnames is true if the names are values of Node.Hostname.
	Hostnames bool
	// Except is true if all nodes but these are suitable.
	Except bool
	Names  []string
}

// admits reports whether a node is suitable.
func (r *NodeRule) admits(n *Node) bool {
	name := n.Name
	if r.Hostnames {
		name = n.Hostname
	}
	return (name != "" && slices.Contains(r.Names, name)) != r.Except
}

// String describes the rule for messages: "on node a", "not on 2 nodes".
func (r *NodeRule) String() string {
	where := "on"
	if r.Except {
		where = "not on"
	}
	if len(r.Names) == 1 {
		return fmt.Sprintf("%s node %s", where, r.Names[0])
	}
	return fmt.Sprintf("%s any of %d nodes", where, len(r.Names))
}

func (r *NodeRule) appendKey(key []byte) []byte {
	key = binary.AppendUvarint(appendBool(appendBool(key, r.Hostnames), r.Except), uint64(len(r.Names)))
	for _, name := range r.Names {
		key = appendText(key, name)
	}
	return key
}

// canonical returns the rules with all names sorted, each once, in one order.
func canonical(rules []NodeRule) []NodeRule {
	if len(rules) == 0 {
		return nil
	}
	list := slices.Clone(rules)
	for i := range list {
		list[i].Names = slices.Clone(list[i].Names)
		slices.Sort(list[i].Names)
		list[i].Names = slices.Compact(list[i].Names)
	}
	slices.SortFunc(list, func(a, b NodeRule) int {
		return cmp.Or(
			cmp.Compare(oneIf(a.Hostnames), oneIf(b.Hostnames)), cmp.Compare(oneIf(a.Except), oneIf(b.Except)),
			slices.Compare(a.Names, b.Names),
		)
	})
	return list
}

// suits reports whether the request's rules admit a node.
func (r *Request) suits(n *node) bool {
	for i := range r.Nodes {
		if !r.Nodes[i].admits(&n.Node) {
			return false
		}
	}
	return true
}

// named reports whether a request names the nodes that are suitable. These are then looked
// at one by one, whatever State they are in.
func (r *Request) named() bool { return r.namedBy != nil }

// namedNodes returns the nodes of a domain that a request names and that its rules admit,
// by name.
func (d *Domain) namedNodes(r *Request) []*node {
	var list []*node
	add := func(n *node) {
		if n != nil && d.contains(n) && r.suits(n) {
			list = append(list, n)
		}
	}
	for _, name := range r.namedBy.Names {
		if !r.namedBy.Hostnames {
			add(r.cluster.nodes[name])
			continue
		}
		for _, n := range r.cluster.hosts[name] {
			add(n)
		}
	}
	slices.SortFunc(list, func(a, b *node) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// addHost adds a node to the index by hostname.
func (c *Cluster) addHost(n *node) {
	if n.Hostname != "" {
		c.hosts[n.Hostname] = append(c.hosts[n.Hostname], n)
	}
}

// removeHost removes a node from the index by hostname.
func (c *Cluster) removeHost(n *node) {
	left := slices.DeleteFunc(c.hosts[n.Hostname], func(other *node) bool { return other == n })
	if len(left) == 0 {
		delete(c.hosts, n.Hostname)
		return
	}
	c.hosts[n.Hostname] = left
}

// canTake calls do with the nodes of a domain that can take a request; of nodes in one
// State only with the first ones by name, up to a number.
func (d *Domain) canTake(r *Request, most int, do func(*node)) {
	if r.named() {
		for _, n := range d.namedNodes(r) {
			if n.fit(r) == Fits {
				do(n)
			}
		}
		return
	}
	for _, members := range d.classes {
		reason, each := members.state.mayFit(r)
		if reason != Fits {
			continue
		}
		left := most
		for _, n := range members.nodes {
			if left == 0 {
				break
			}
			if !each || n.fit(r) == Fits {
				left--
				do(n)
			}
		}
	}
}
