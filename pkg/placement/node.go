// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"fmt"
	"slices"
)

// GPU is one card of a node.
type GPU struct {
	Memory int64 // MiB
	// Group is the index of the NVLink group, or -1.
	Group int
	// NUMA is the NUMA node, or -1.
	NUMA int
	// Broken GPUs are not allocated. A Pod that holds one keeps it.
	Broken bool
}

// Node describes a node and its capacity, regardless of what runs on it.
type Node struct {
	Name   string
	CPU    int64 // milli-cores
	Memory int64 // MiB
	Slots  int   // how many Pods may run
	// Others are further resources. Nodes that differ in them share no States, so they should
	// leave out what no Shape needs.
	Others Amounts
	// Hostname is what a NodeRule may refer to; empty for none.
	Hostname string
	Model    string
	Pool     string
	// Traits are further properties, such as labels and taints, in any form that
	// Selectors understand. Only nodes with equal traits share States, so traits should
	// leave out what no Selector uses, and have one canonical form.
	Traits string
	// Domains is where the node is, from the widest level to the narrowest: its
	// zone, its rack, its leaf. Names must be unique within the domain above. Unnamed stands
	// for a level of which the node is in no domain, although it is in one of a narrower level.
	Domains []string
	GPUs    []GPU
	// Closed nodes take no further Pods but those whose Selector knows that they may go there; what is free there does
	// not count as free capacity.
	Closed bool
}

// Unnamed is not a domain: nobody knows whether nodes of which a level is Unnamed are near each other.
const Unnamed = "-"

// maxSlots is far more Pods than a node can have, so that sums do not overflow.
const maxSlots = 1 << 20

// MaxCards is how many GPUs a node may have. Those that a device plugin offers several times over, as with
// time-slicing, count as often. A node costs time and memory in proportion to what it has, not to this.
const MaxCards = 1024

func (n *Node) validate() error {
	switch {
	case n.Name == "":
		return errors.New("a node needs a name")
	case n.CPU < 0 || n.Memory < 0 || n.Slots < 0:
		return fmt.Errorf("node %s: CPU, memory and slots must not be negative", n.Name)
	case n.Slots > maxSlots:
		return fmt.Errorf("node %s: slots: must be at most %d, are %d", n.Name, maxSlots, n.Slots)
	case slices.ContainsFunc(n.GPUs, func(gpu GPU) bool { return gpu.Memory < 0 }):
		return fmt.Errorf("node %s: GPUs: their memory must not be negative", n.Name)
	case len(n.GPUs) > MaxCards:
		return fmt.Errorf("node %s: has %d GPUs, at most %d are supported", n.Name, len(n.GPUs), MaxCards)
	}
	if err := n.Others.validate(); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return nil
}

// Use is the resources that a Pod holds on its node.
type Use struct {
	CPU    int64
	Memory int64
	// Others may include resources that the node does not list.
	Others Amounts
	// GPUs are the indices of the cards.
	GPUs []int
	// Percent is how much it holds of each of these cards.
	Percent int
	// NoSlot is true for something else than a Pod: it takes no Pod slot.
	NoSlot bool
}

// Pod is a running Pod.
type Pod struct {
	// Name identifies the Pod in the cluster.
	Name string
	Node string
	Use
}
