// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// snug is a policy for tests: it prefers the node where the least is left.
type snug struct{}

func (snug) Begin(*placement.Cluster, *placement.Request) {}
func (snug) Epoch() uint64                                { return 0 }
func (snug) Price(step placement.Step) float64 {
	return float64(step.After.Percent()) + float64(step.CardFree)/1000 + float64(step.After.CPU())/1e7
}
func (snug) Surcharge(*placement.Request, *placement.State) float64 { return 0 }

// world is a small cluster, and all that the oracle needs to know about it.
type world struct {
	nodes  []placement.Node
	pods   []placement.Pod
	shapes map[string]placement.Shape
	costs  map[string]float64
	fixed  map[string]bool
	groups map[string]string
	// extra decides about memory and network adapters; nil if nobody needs any.
	extra *rand.Rand
}

func newWorld() *world {
	return &world{
		shapes: map[string]placement.Shape{}, costs: map[string]float64{}, fixed: map[string]bool{}, groups: map[string]string{},
	}
}

func (w *world) node(name string, gpus int, cpu int64, domains ...string) {
	node := placement.Node{Name: name, CPU: cpu, Memory: 1000, Slots: 100, Model: "m", Domains: domains}
	for range gpus {
		node.GPUs = append(node.GPUs, placement.GPU{Memory: 80000, Group: -1, NUMA: -1})
	}
	if w.extra != nil {
		node.Others = amounts(1+w.extra.IntN(4), 0)
		node.Memory = int64(1024*(2+w.extra.IntN(2)) + w.extra.IntN(4)) // unequal, see slack
	}
	w.nodes = append(w.nodes, node)
}

// scarce makes every second world one in which Pods need memory and network adapters.
func (w *world) scarce(seed uint64) {
	if seed%2 == 0 {
		w.extra = rand.New(rand.NewPCG(seed, 41))
	}
}

// needing returns a shape that may need memory and network adapters besides.
func (w *world) needing(shape placement.Shape) placement.Shape {
	if w.extra != nil {
		shape.Others = amounts(w.extra.IntN(3), 0)
		shape.Memory = []int64{0, 0, 512, 1024, 1025, 2049}[w.extra.IntN(6)]
	}
	return shape
}

// run adds a Pod that runs on some cards.
func (w *world) run(name, node string, shape placement.Shape, gpus ...int) {
	percent := placement.Card
	if shape.Share > 0 {
		percent = shape.Share
	}
	use := placement.Use{CPU: shape.CPU, Memory: shape.Memory, Others: shape.Others, GPUs: gpus}
	if len(gpus) > 0 {
		use.Percent = percent
	}
	w.pods = append(w.pods, placement.Pod{Name: name, Node: node, Use: use})
	w.shapes[name] = shape
	w.costs[name] = 1
}

func (w *world) rules() placement.MoveRules {
	return placement.MoveRules{
		Cost:  func(p *placement.Pod) (float64, bool) { return w.costs[p.Name], !w.fixed[p.Name] },
		Group: func(p *placement.Pod) string { return w.groups[p.Name] },
		Shape: func(p *placement.Pod) placement.Shape { return w.shapes[p.Name] },
	}
}

func (w *world) cluster(tb testing.TB) *placement.Cluster {
	tb.Helper()
	c := placement.NewCluster(snug{})
	for _, node := range w.nodes {
		if err := c.SetNode(node); err != nil {
			tb.Fatal(err)
		}
	}
	for _, pod := range w.pods {
		if err := c.Place(pod); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

func gpusEach(gpus int) placement.Shape { return placement.Shape{CPU: int64(gpus), GPUs: gpus} }

func loneGang(shape placement.Shape) *placement.Gang {
	return &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: 1, Max: 1}}}
}

// randomWorld returns a nearly full cluster of at most 4 nodes, 8 cards and 8
// Pods, and a gang that may want to run there.
func randomWorld(seed uint64) (*world, *placement.Gang) {
	rng := rand.New(rand.NewPCG(seed, 17))
	w := newWorld()
	w.scarce(seed)
	cards := 0
	nodes := 2 + rng.IntN(3)
	for i := range nodes {
		gpus := min(1+rng.IntN(4), 8-cards-(nodes-1-i))
		cards += gpus
		w.node(fmt.Sprintf("n%d", i), gpus, int64(gpus*2+rng.IntN(3)), fmt.Sprintf("leaf%d", i%2))
		if rng.IntN(4) == 0 {
			w.nodes[i].Model = "other"
		}
	}
	free := make([]*ledger, nodes)
	for i := range free {
		free[i] = newLedger(&w.nodes[i])
	}
	for i := range 6 + rng.IntN(3) {
		w.randomPod(rng, fmt.Sprintf("p%d", i), free)
	}
	w.randomGroups(rng)
	gang := worldGang(rng)
	for i := range gang.Roles {
		gang.Roles[i].Shape = w.needing(gang.Roles[i].Shape)
	}
	return w, gang
}

func worldShape(rng *rand.Rand) placement.Shape {
	shape := placement.Shape{CPU: int64(rng.IntN(3))}
	switch rng.IntN(8) {
	case 0: // CPU only
		shape.CPU += 2
	case 1, 2, 3:
		shape.Share = 20 + 10*rng.IntN(6)
	case 4, 5, 6:
		shape.GPUs = 1
	default:
		shape.GPUs = 2
	}
	if rng.IntN(4) == 0 {
		shape.Models = []string{"m"}
	}
	return shape
}

func (w *world) randomPod(rng *rand.Rand, name string, free []*ledger) {
	shape := w.needing(worldShape(rng))
	for range 6 {
		i := rng.IntN(len(free))
		choices := free[i].choices(&shape)
		if len(choices) == 0 {
			continue
		}
		gpus := choices[rng.IntN(len(choices))]
		w.run(name, w.nodes[i].Name, shape, gpus...)
		w.costs[name] = float64(1 + rng.IntN(9))
		w.fixed[name] = rng.IntN(8) == 0
		free[i].take(&w.pods[len(w.pods)-1].Use, 1)
		return
	}
}

func (w *world) randomGroups(rng *rand.Rand) {
	if len(w.pods) < 3 || rng.IntN(3) > 0 {
		return
	}
	for range 2 {
		w.groups[w.pods[rng.IntN(len(w.pods))].Name] = "gang"
	}
}

func worldGang(rng *rand.Rand) *placement.Gang {
	shape := placement.Shape{CPU: int64(1 + rng.IntN(3)), GPUs: 1 + rng.IntN(3)}
	gang := &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: 1, Max: 1}}}
	switch rng.IntN(4) {
	case 0:
		gang.Roles[0].Shape.GPUs = 1
		gang.Roles[0].Min, gang.Roles[0].Max = 2, 2
	case 1:
		gang.Roles = append(gang.Roles, placement.Role{Shape: worldShape(rng), Min: 1, Max: 1})
	}
	if len(gang.Roles)+gang.Roles[0].Min > 2 && rng.IntN(2) == 0 {
		gang.Level, gang.Required = 1, true
	}
	return gang
}

// ledger is what is free of a node, for the oracle: it shares no code with the
// engine.
type ledger struct {
	node   *placement.Node
	cpu    int64
	slots  int
	memory int64
	// adapters are those for the network.
	adapters int64
	cards    []int
}

func newLedger(node *placement.Node) *ledger {
	l := &ledger{node: node, cpu: node.CPU, slots: node.Slots, memory: node.Memory, adapters: node.Others.Of("rdma/hca")}
	for range node.GPUs {
		l.cards = append(l.cards, placement.Card)
	}
	return l
}

func (l *ledger) take(use *placement.Use, sign int) {
	l.cpu -= int64(sign) * use.CPU
	l.slots -= sign
	l.memory -= int64(sign) * use.Memory
	l.adapters -= int64(sign) * use.Others.Of("rdma/hca")
	for _, gpu := range use.GPUs {
		l.cards[gpu] -= sign * use.Percent
	}
}

func (l *ledger) free(use *placement.Use) bool {
	if l.cpu < use.CPU || l.slots < 1 || l.memory < use.Memory || l.adapters < use.Others.Of("rdma/hca") {
		return false
	}
	for _, gpu := range use.GPUs {
		if l.cards[gpu] < use.Percent {
			return false
		}
	}
	return true
}

// choices returns all sets of cards that a shape can get.
func (l *ledger) choices(shape *placement.Shape) [][]int {
	if l.node.Closed || l.cpu < shape.CPU || l.slots < 1 || l.memory < shape.Memory || l.adapters < shape.Others.Of("rdma/hca") {
		return nil
	}
	if len(shape.Models) > 0 && !slices.Contains(shape.Models, l.node.Model) {
		return nil
	}
	if shape.Percent() == 0 {
		return [][]int{nil}
	}
	wanted, percent := shape.GPUs, placement.Card
	if shape.Share > 0 {
		wanted, percent = 1, shape.Share
	}
	var fitting []int
	for gpu, free := range l.cards {
		if free >= percent {
			fitting = append(fitting, gpu)
		}
	}
	return cardSets(fitting, wanted)
}

func cardSets(list []int, size int) [][]int {
	if size == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for i := range list {
		for _, rest := range cardSets(list[i+1:], size-1) {
			all = append(all, append([]int{list[i]}, rest...))
		}
	}
	return all
}
