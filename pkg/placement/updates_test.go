// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// updates applies random changes to a cluster and to the reference alike.
type updates struct {
	dice
	t       *testing.T
	cluster *placement.Cluster
	want    *reference
	limits  limits
	// pods counts all Pods ever placed.
	pods   int
	policy *whimsical
}

func newUpdates(t *testing.T, d dice, l limits) *updates {
	t.Helper()
	policy := &whimsical{}
	return &updates{dice: d, t: t, cluster: placement.NewCluster(policy), want: newReference(), limits: l, policy: policy}
}

// step makes one random change.
func (u *updates) step() {
	switch u.IntN(10) {
	case 0, 1:
		u.setNode()
	case 2:
		if oneIn(u, 3) {
			name := u.node()
			u.cluster.RemoveNode(name)
			u.want.removeNode(name)
		}
	case 3, 4:
		u.remove()
	case 5:
		u.try(3)
	case 6:
		u.thereAndBack()
	case 7:
		u.policy.epoch++
		u.cluster.SweepAt(u.IntN(50))
	default:
		u.place()
	}
}

func (u *updates) node() string { return nodeName(u.IntN(u.limits.nodes)) }

// setNode adds a node or changes one, often only a little.
func (u *updates) setNode() {
	n, known := u.want.nodes[u.node()]
	switch {
	case !known || oneIn(u, 3):
		n = randomNode(u, u.node(), u.limits)
	case len(n.GPUs) > 0 && oneIn(u, 2): // a GPU breaks or is repaired
		gpus := append([]placement.GPU(nil), n.GPUs...)
		gpus[u.IntN(len(gpus))].Broken = oneIn(u, 2)
		n.GPUs = gpus
	default:
		n.Closed = !n.Closed
	}
	if err := u.cluster.SetNode(n); err != nil {
		u.t.Fatal(err)
	}
	u.want.nodes[n.Name] = n
}

// place puts a Pod where it fits, or anywhere, as can happen in a real cluster.
func (u *updates) place() {
	u.pods++
	pod := placement.Pod{Name: fmt.Sprintf("p%d", u.pods), Node: u.node()}
	if oneIn(u, 3) {
		n := u.want.nodes[pod.Node]
		pod.Use = randomUse(u, &n)
	} else if place, found := u.cluster.Find(u.cluster.Request(randomShape(u, u.limits.cards)), u.cluster.Root()); found {
		pod.Node, pod.Use = place.Node, place.Use
	}
	u.put(pod)
}

func (u *updates) put(pod placement.Pod) {
	_, known := u.want.nodes[pod.Node]
	if err := u.cluster.Place(pod); (err == nil) != known {
		u.t.Fatalf("Pod %+v: got %v", pod, err)
	}
	if known {
		u.want.pods[pod.Name] = pod
	}
}

func (u *updates) remove() {
	name := fmt.Sprintf("p%d", 1+u.IntN(max(1, u.pods)))
	u.cluster.Remove(name)
	delete(u.want.pods, name)
}

// try makes changes that are undone, or kept, and trials within.
func (u *updates) try(depth int) {
	before, states := u.want.clone(), u.states()
	keep := oneIn(u, 3)
	u.cluster.Try(func() bool {
		for range u.IntN(5) {
			switch u.IntN(4) {
			case 0:
				if depth > 0 {
					u.try(depth - 1)
				}
			case 1:
				u.remove()
			default:
				u.place()
			}
		}
		return keep
	})
	if keep {
		return
	}
	u.want = before
	u.mustBe(states, "a trial")
}

// thereAndBack places Pods and removes them in another order.
func (u *updates) thereAndBack() {
	states, first := u.states(), u.pods+1
	for range u.IntN(4) {
		u.place()
	}
	for i := range u.pods + 1 - first {
		name := fmt.Sprintf("p%d", first+i)
		u.cluster.Remove(name)
		delete(u.want.pods, name)
	}
	u.mustBe(states, "Pods came and went")
}

// states returns the State of each node. It rules out a sweep for a while, so that a node
// that returns to a State gets the same one.
func (u *updates) states() map[string]*placement.State {
	u.cluster.SweepAt(1 << 14)
	states := map[string]*placement.State{}
	for name := range u.want.nodes {
		states[name] = u.cluster.StateOf(name)
	}
	return states
}

// mustBe checks that each node is in the same State as before.
func (u *updates) mustBe(states map[string]*placement.State, after string) {
	u.t.Helper()
	for name, state := range states {
		if got := u.cluster.StateOf(name); got != state {
			u.t.Fatalf("node %s: after %s free are %v, want %v", name, after, got.Free(), state.Free())
		}
	}
}

func TestAClusterMatchesItsUpdates(t *testing.T) {
	t.Parallel()
	tests := map[string]limits{
		"of nodes with a few cards":        {nodes: 8, cards: 6, levels: 2},
		"of nodes with hundreds of cards":  {nodes: 3, cards: 300, levels: 1},
		"of a node with as many as can be": {nodes: 1, cards: placement.MaxCards},
	}
	for name, l := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(max(2, l.nodes*3/2)) {
				u := newUpdates(t, seeded(seed), l)
				for range 10 * l.nodes {
					u.step()
					u.want.check(t, u.cluster, []placement.Shape{randomShape(u, l.cards), randomShape(u, 3)})
					u.checkKinds()
				}
			}
		})
	}
}

// checkKinds checks what is free of each kind of node against the sum over its nodes.
func (u *updates) checkKinds() {
	u.t.Helper()
	sums, kinds := map[int]int{}, map[int]*placement.State{}
	u.cluster.Root().States(func(s *placement.State, nodes int) {
		sums[s.Kind()] += nodes * s.Percent()
		kinds[s.Kind()] = s
	})
	for kind, s := range kinds {
		if s.KindPercent() != sums[kind] {
			u.t.Fatalf("of kind %d, %d %% are free, want %d %%", kind, s.KindPercent(), sums[kind])
		}
	}
}

// TestTheOrderOfUpdatesDoesNotMatter builds one cluster in two orders.
func TestTheOrderOfUpdatesDoesNotMatter(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		u := newUpdates(t, seeded(seed), limits{nodes: 8, cards: 6, levels: 2})
		for range 60 {
			u.step()
		}
		again := u.rebuilt()
		for range 20 {
			shape := randomShape(u, 6)
			a, foundA := u.cluster.Find(u.cluster.Request(shape), u.cluster.Root())
			b, foundB := again.Find(again.Request(shape), again.Root())
			if foundA != foundB || fmt.Sprint(a) != fmt.Sprint(b) {
				t.Fatalf("seed %d: %s goes to %v and to %v", seed, &shape, a, b)
			}
		}
	}
}

// rebuilt builds the cluster again, in a random order.
func (u *updates) rebuilt() *placement.Cluster {
	u.t.Helper()
	c := placement.NewCluster(&whimsical{epoch: u.policy.epoch})
	set := func(n placement.Node) {
		if err := c.SetNode(n); err != nil {
			u.t.Fatal(err)
		}
	}
	for _, n := range u.want.nodes {
		n.GPUs = make([]placement.GPU, u.limits.cards) // Pods may have GPUs that are lost
		set(n)
	}
	for _, pod := range u.want.pods {
		if err := c.Place(pod); err != nil {
			u.t.Fatal(err)
		}
	}
	for _, n := range u.want.nodes {
		set(n)
	}
	return c
}

// FuzzUpdates runs a program of updates.
func FuzzUpdates(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x00\x00\x08\x01\x02\x01\x05\x03\x03\x02"))
	f.Add([]byte("set a node, place some Pods, remove them, try it all again, and again"))
	for seed := range uint64(4) {
		d := seeded(seed)
		bytes := make([]byte, 400)
		for i := range bytes {
			bytes[i] = byte(d.IntN(256))
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		p := &program{bytes[:min(len(bytes), 1000)]}
		u := newUpdates(t, p, limits{nodes: 4, cards: 5, levels: 2})
		for !p.done() {
			u.step()
		}
		u.want.check(t, u.cluster, []placement.Shape{{CPU: 500, Share: 30}, {GPUs: 2, GPUMemory: 41}, {Memory: 500, GPUs: 1, Models: []string{"a"}}})
	})
}
