// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Short names for what every test needs.
type (
	nodeOf  = placement.Node
	shapeOf = placement.Shape
)

const (
	model     = "h100"
	gpuMemory = 80000
)

// nodeBuilder describes a node. Its capacity is ample unless a test sets it.
type nodeBuilder struct{ nodeOf }

// aNode returns a node with GPUs without NVLink.
func aNode(name string, gpus int) *nodeBuilder {
	b := &nodeBuilder{nodeOf{Name: name, CPU: 64000, Memory: 512000, Slots: 100, Model: model}}
	for range gpus {
		b.GPUs = append(b.GPUs, placement.GPU{Memory: gpuMemory, Group: -1, NUMA: -1})
	}
	return b
}

// groups puts the GPUs into NVLink groups, by their index.
func (b *nodeBuilder) groups(groups ...int) *nodeBuilder {
	for i, group := range groups {
		b.GPUs[i].Group = group
	}
	return b
}

// memories sets the memory of the GPUs, by their index.
func (b *nodeBuilder) memories(memories ...int64) *nodeBuilder {
	for i, memory := range memories {
		b.GPUs[i].Memory = memory
	}
	return b
}

func (b *nodeBuilder) broken(gpus ...int) *nodeBuilder {
	for _, gpu := range gpus {
		b.GPUs[gpu].Broken = true
	}
	return b
}

func (b *nodeBuilder) size(cpu, memory int64, slots int) *nodeBuilder {
	b.CPU, b.Memory, b.Slots = cpu, memory, slots
	return b
}

// others sets how many network adapters there are, and bytes of storage.
func (b *nodeBuilder) others(adapters, storage int) *nodeBuilder {
	b.Others = amounts(adapters, storage)
	return b
}

func (b *nodeBuilder) in(domains ...string) *nodeBuilder {
	b.Domains = domains
	return b
}

// but returns another node with something changed.
func (b *nodeBuilder) but(change func(*placement.Node)) *nodeBuilder {
	other := *b
	other.GPUs = slices.Clone(b.GPUs)
	change(&other.nodeOf)
	return &other
}

// clusterOf returns a cluster of nodes with the policy tightest.
func clusterOf(t *testing.T, nodes ...*nodeBuilder) *placement.Cluster {
	t.Helper()
	c := placement.NewCluster(tightest{})
	for _, n := range nodes {
		set(t, c, n)
	}
	return c
}

func set(t *testing.T, c *placement.Cluster, n *nodeBuilder) {
	t.Helper()
	if err := c.SetNode(n.nodeOf); err != nil {
		t.Fatal(err)
	}
}

// use returns what a Pod with some percent of each of some GPUs holds.
func use(percent int, gpus ...int) placement.Use {
	return placement.Use{CPU: 1000, Memory: 1000, GPUs: gpus, Percent: percent}
}

func run(t *testing.T, c *placement.Cluster, name, node string, holds placement.Use) {
	t.Helper()
	if err := c.Place(placement.Pod{Name: name, Node: node, Use: holds}); err != nil {
		t.Fatal(err)
	}
}

// whole and share are shapes that need little but GPUs.
func whole(gpus int) shapeOf    { return shapeOf{CPU: 1000, Memory: 1000, GPUs: gpus} }
func share(percent int) shapeOf { return shapeOf{CPU: 1000, Memory: 1000, Share: percent} }

// at adds a rule about names to a shape.
func at(rule placement.NodeRule, shape shapeOf) shapeOf {
	shape.Nodes = append(shape.Nodes, rule)
	return shape
}

func find(t *testing.T, c *placement.Cluster, shape placement.Shape) placement.Place {
	t.Helper()
	place, found := c.Find(c.Request(shape), c.Root())
	if !found {
		t.Fatalf("%s fits nowhere", &shape)
	}
	return place
}

func domainOf(t *testing.T, c *placement.Cluster, name string) *placement.Domain {
	t.Helper()
	if d := search(c.Root(), name); d != nil {
		return d
	}
	t.Fatalf("there is no domain %q", name)
	return nil
}

func search(d *placement.Domain, name string) *placement.Domain {
	if d.Name == name {
		return d
	}
	for _, child := range d.Children {
		if found := search(child, name); found != nil {
			return found
		}
	}
	return nil
}

// tightest is a policy that prefers the node, and the card, with the least left.
type tightest struct{}

func (tightest) Begin(*placement.Cluster, *placement.Request) {}
func (tightest) Epoch() uint64                                { return 0 }
func (tightest) Surcharge(*placement.Request, *placement.State) float64 {
	return 0
}

func (tightest) Price(step placement.Step) float64 {
	return float64(step.After.Percent()) + float64(step.CardFree)/1000
}

// whimsical is a policy whose prices are arbitrary but few, so that there are many ties.
// They change with the epoch.
type whimsical struct {
	epoch uint64
	// begun counts the decisions.
	begun int
}

func (w *whimsical) Begin(*placement.Cluster, *placement.Request) { w.begun++ }
func (w *whimsical) Epoch() uint64                                { return w.epoch }

func (w *whimsical) Price(step placement.Step) float64 {
	return float64(w.hash(step.Request, step.Before, step.After, step.CardFree) % 5)
}

func (w *whimsical) Surcharge(r *placement.Request, before *placement.State) float64 {
	return float64(w.hash(r, before, before, 0)%2) / 2
}

// hash hashes what a policy can see.
func (w *whimsical) hash(r *placement.Request, before, after *placement.State, extra int) uint64 {
	sum := w.epoch + 14695981039346656037
	add := func(number int) { sum = (sum ^ uint64(number)) * 1099511628211 }
	add(extra)
	add(r.Percent())
	add(int(r.CPU))
	for _, s := range []*placement.State{before, after} {
		add(int(s.CPU()))
		add(int(s.Memory()))
		add(len(s.Model()))
		for _, free := range s.Free() {
			add(int(free))
		}
	}
	return sum >> 20
}
