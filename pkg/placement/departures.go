// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// leaving is what becomes free together with a card.
type leaving int

const (
	// wholePods is everything that the Pods on the card hold, but other cards.
	wholePods leaving = iota
	// cardsOnly is nothing else.
	cardsOnly
)

// departures are cards that are assumed to be free, and the Pods that have left them.
type departures struct {
	cluster *Cluster
	leave   leaving
	cards   []freedCard
	pods    map[*Pod]bool
}

type freedCard struct {
	node *node
	card int
	// percent is how much of the card was freed.
	percent int32
}

// free assumes that cards of a node are free.
func (d *departures) free(n *node, cards []int) {
	before := n.state
	if d.leave == wholePods {
		if d.pods == nil {
			d.pods = map[*Pod]bool{}
		}
		for _, pod := range d.leaving(n, cards) {
			n.give(pod.besidesGPUs())
			d.pods[pod] = true
		}
	}
	for _, card := range cards {
		d.cards = append(d.cards, freedCard{node: n, card: card, percent: Card - n.free[card]})
		n.free[card] = Card
	}
	d.cluster.reindex(n, before)
}

// restore undoes all assumptions.
func (d *departures) restore() {
	for _, freed := range d.cards {
		before := freed.node.state
		freed.node.free[freed.card] -= freed.percent
		d.cluster.reindex(freed.node, before)
	}
	for pod := range d.pods {
		n := d.cluster.nodes[pod.Node]
		before := n.state
		n.take(pod.besidesGPUs())
		d.cluster.reindex(n, before)
	}
}

// leaving returns the Pods that hold any of some cards of a node and have not left yet, in
// no order.
func (d *departures) leaving(n *node, cards []int) []*Pod {
	if len(cards) == 0 {
		return nil
	}
	var list []*Pod
	for _, pod := range n.pods {
		if !d.pods[pod] && slices.ContainsFunc(pod.GPUs, func(gpu int) bool { return slices.Contains(cards, gpu) }) {
			list = append(list, pod)
		}
	}
	return list
}

// besidesGPUs returns what a Pod holds besides GPUs.
func (p *Pod) besidesGPUs() *Use {
	return &Use{CPU: p.CPU, Memory: p.Memory, Others: p.Others, NoSlot: p.NoSlot}
}

// byNode returns the cards by the names of their nodes.
func (d *departures) byNode() map[string][]int {
	cards := map[string][]int{}
	for _, freed := range d.cards {
		cards[freed.node.Name] = append(cards[freed.node.Name], freed.card)
	}
	return cards
}
