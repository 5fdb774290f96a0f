// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/allocation"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// randomNode is a node of eight GPUs in NVLink groups, some of which are in use.
type randomNode struct {
	groups []int
	free   []int
}

func newRandomNode(random *rand.Rand) *randomNode {
	n := &randomNode{}
	size := []int{1, 2, 4, 8}[random.IntN(4)]
	for card := range 8 {
		group := card / size
		if size == 1 {
			group = allocation.Unknown
		}
		n.groups = append(n.groups, group)
		if random.IntN(3) > 0 {
			n.free = append(n.free, card)
		}
	}
	return n
}

// chosenByAgent is what the device plugin proposes to the kubelet.
func (n *randomNode) chosenByAgent(t *testing.T, count int) []int {
	t.Helper()
	var devices []allocation.Device
	for card, group := range n.groups {
		devices = append(devices, allocation.Device{ID: strconv.Itoa(card), Group: group, NUMANode: allocation.Unknown})
	}
	topology, err := allocation.New(devices, nil)
	if err != nil {
		t.Fatal(err)
	}
	request := allocation.Request{Size: count}
	for _, card := range n.free {
		request.Available = append(request.Available, strconv.Itoa(card))
	}
	ids, err := topology.Choose(request)
	if err != nil {
		t.Fatal(err)
	}
	var cards []int
	for _, id := range ids {
		card, err := strconv.Atoi(id)
		if err != nil {
			t.Fatal(err)
		}
		cards = append(cards, card)
	}
	return cards
}

// chosenByScheduler is what the placement engine plans.
func (n *randomNode) chosenByScheduler(t *testing.T, count int) []int {
	t.Helper()
	cluster := placement.NewCluster(packing.New(packing.Default()))
	node := placement.Node{Name: "n", CPU: 64000, Memory: 1 << 20, Slots: 100}
	for _, group := range n.groups {
		node.GPUs = append(node.GPUs, placement.GPU{Memory: 80000, Group: group, NUMA: -1})
	}
	if err := cluster.SetNode(node); err != nil {
		t.Fatal(err)
	}
	for card := range n.groups {
		if slices.Contains(n.free, card) {
			continue
		}
		use := placement.Use{GPUs: []int{card}, Percent: placement.Card}
		if err := cluster.Place(placement.Pod{Name: strconv.Itoa(card), Node: "n", Use: use}); err != nil {
			t.Fatal(err)
		}
	}
	place, fits := cluster.On("n", cluster.Request(placement.Shape{GPUs: count}))
	if !fits {
		t.Fatalf("%d of the cards %v do not fit", count, n.free)
	}
	return place.GPUs
}

// cost is what both minimize, in this order: the groups used, the groups broken that
// were all free, and the cards left free in the groups used.
func (n *randomNode) cost(cards []int) [3]int {
	size, free, taken := map[int]int{}, map[int]int{}, map[int]int{}
	of := func(card int) int {
		if n.groups[card] == allocation.Unknown {
			return -2 - card // a group of its own
		}
		return n.groups[card]
	}
	for card := range n.groups {
		size[of(card)]++
	}
	for _, card := range n.free {
		free[of(card)]++
	}
	for _, card := range cards {
		taken[of(card)]++
	}
	cost := [3]int{len(taken), 0, 0}
	for group, count := range taken {
		if free[group] == size[group] && size[group] > 1 && count < free[group] {
			cost[1]++
		}
		cost[2] += free[group] - count
	}
	return cost
}

// The scheduler plans the cards of a Pod, the agent proposes cards to the kubelet for
// those that no scheduler of ours has planned: both have to keep NVLink groups whole.
func TestAgentAndSchedulerChooseEquallyGoodCards(t *testing.T) {
	t.Parallel()
	const nodes = 5000
	for seed := range uint64(nodes) {
		random := rand.New(rand.NewPCG(seed, 3))
		n := newRandomNode(random)
		if len(n.free) == 0 {
			continue
		}
		count := 1 + random.IntN(len(n.free))
		agent, scheduler := n.chosenByAgent(t, count), n.chosenByScheduler(t, count)
		if a, s := n.cost(agent), n.cost(scheduler); a != s {
			t.Errorf("seed %d: %d of the free cards %v in groups %v: the agent chooses %v (cost %v), the scheduler %v (cost %v)",
				seed, count, n.free, n.groups, agent, a, scheduler, s)
		}
	}
}
