// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// crowdedWorld returns a full cluster of at most 5 nodes, 4 cards each, and a gang
// of up to 4 members that needs several Pods to leave.
func crowdedWorld(seed uint64) (*world, *placement.Gang) {
	rng := rand.New(rand.NewPCG(seed, 29))
	w := newWorld()
	w.scarce(seed)
	for i := range 3 + rng.IntN(3) {
		w.node(fmt.Sprintf("n%d", i), 4, 8, fmt.Sprintf("leaf%d", i%2))
		free := newLedger(&w.nodes[i])
		for len(w.pods) < 11 {
			shape := w.needing(placement.Shape{CPU: int64(rng.IntN(3)), GPUs: 1 + rng.IntN(2)})
			if rng.IntN(4) == 0 {
				shape.GPUs, shape.Share = 0, 50
			}
			choices := free.choices(&shape)
			if len(choices) == 0 {
				break
			}
			w.run(fmt.Sprintf("p%02d", len(w.pods)), w.nodes[i].Name, shape, choices[rng.IntN(len(choices))]...)
			w.fixed[w.pods[len(w.pods)-1].Name] = rng.IntN(10) == 0
			free.take(&w.pods[len(w.pods)-1].Use, 1)
		}
	}
	members := 1 + rng.IntN(4)
	g := &placement.Gang{Roles: []placement.Role{{Shape: w.needing(gpusEach(1 + rng.IntN(4))), Min: members, Max: members + rng.IntN(2)}}}
	if rng.IntN(2) == 0 {
		g.Level, g.Required = 1, rng.IntN(2) == 0
	}
	return w, g
}

// ruledWorld is a world with preemption rules.
type ruledWorld struct {
	*world
	priority map[string]int32
	budgets  map[string][]string
	allowed  map[string]int
	spare    map[string]int
}

// randomRules makes rules for a world. Without budgets, removing all preemptible Pods
// shows whether preemption is possible.
func randomRules(w *world, seed uint64, budgets bool) *ruledWorld {
	rng := rand.New(rand.NewPCG(seed, 23))
	r := &ruledWorld{world: w, priority: map[string]int32{}, budgets: map[string][]string{}, allowed: map[string]int{}, spare: map[string]int{}}
	for _, pod := range w.pods {
		r.priority[pod.Name] = int32(rng.IntN(4)*100 - 100)
		if rng.IntN(3) == 0 {
			w.groups[pod.Name] = []string{"one", "two"}[rng.IntN(2)]
		}
		if budgets && rng.IntN(2) == 0 {
			r.budgets[pod.Name] = append(r.budgets[pod.Name], "x")
		}
		if budgets && rng.IntN(4) == 0 {
			r.budgets[pod.Name] = append(r.budgets[pod.Name], "y")
		}
	}
	for _, name := range []string{"gang", "one", "two"} {
		r.spare[name] = max(0, rng.IntN(4)-1)
	}
	r.allowed["x"], r.allowed["y"] = rng.IntN(4), rng.IntN(3)
	return r
}

func (r *ruledWorld) rules() placement.PreemptionRules {
	return placement.PreemptionRules{
		Victim:  func(p *placement.Pod) (int32, bool) { return r.priority[p.Name], !r.fixed[p.Name] },
		Group:   func(p *placement.Pod) string { return r.groups[p.Name] },
		Spare:   func(group string) int { return r.spare[group] },
		Budgets: func(p *placement.Pod) []string { return r.budgets[p.Name] },
		Allowed: r.allowed,
	}
}

// permitted reports whether Pods may be preempted together.
func (r *ruledWorld) permitted(pods []string) bool {
	leaving, members, used := map[string]int{}, map[string]int{}, map[string]int{}
	for _, pod := range r.pods {
		members[r.groups[pod.Name]]++
	}
	for _, name := range pods {
		if r.fixed[name] {
			return false
		}
		leaving[r.groups[name]]++
		for _, budget := range r.budgets[name] {
			used[budget]++
		}
	}
	for group, count := range leaving {
		if group != "" && count < members[group] && count > r.spare[group] {
			return false
		}
	}
	for budget, count := range used {
		if count > r.allowed[budget] {
			return false
		}
	}
	return true
}

// merit is what victims are compared by: see placement.Preempt.
type merit struct {
	highest int32
	sum     float64
	pods    int
}

func (r *ruledWorld) merit(pods []string) merit {
	m := merit{highest: math.MinInt32, pods: len(pods)}
	for _, name := range pods {
		m.highest = max(m.highest, r.priority[name])
		m.sum += float64(r.priority[name]) - math.MinInt32
	}
	return m
}

func (m merit) compare(other merit) int {
	return cmp.Or(cmp.Compare(m.highest, other.highest), cmp.Compare(m.sum, other.sum), cmp.Compare(m.pods, other.pods))
}

// subset returns the names whose bits are set.
func subset(names []string, bits int) (list []string) {
	for i, name := range names {
		if bits>>i&1 == 1 {
			list = append(list, name)
		}
	}
	return list
}

// cheapestVictims tries all sets of Pods, the best first.
func (r *ruledWorld) cheapestVictims(gang *placement.Gang) (victims []string, found bool) {
	var movable []string
	for _, pod := range r.pods {
		if !r.fixed[pod.Name] {
			movable = append(movable, pod.Name)
		}
	}
	if !r.without(movable...).fits(gang) {
		return nil, false
	}
	var sets [][]string
	for bits := range 1 << len(movable) {
		if set := subset(movable, bits); r.permitted(set) {
			sets = append(sets, set)
		}
	}
	slices.SortStableFunc(sets, func(a, b []string) int { return r.merit(a).compare(r.merit(b)) })
	at := slices.IndexFunc(sets, func(set []string) bool { return r.without(set...).fits(gang) })
	if at < 0 {
		return nil, false
	}
	return sets[at], true
}

// reducible reports whether some of the victims may stay and the gang fits nevertheless.
func (r *ruledWorld) reducible(victims []string, gang *placement.Gang) bool {
	for bits := range 1<<len(victims) - 1 {
		if set := subset(victims, bits); r.permitted(set) && r.without(set...).fits(gang) {
			return true
		}
	}
	return false
}
