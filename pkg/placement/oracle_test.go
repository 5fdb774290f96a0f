// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// exhaustive tries all ways to place the members of a gang.
type exhaustive struct {
	nodes []rest
	// members has the shape of each, those of one role next to each other.
	members []*placement.Shape
	failed  map[string]bool
}

// possible reports whether the gang fits on some nodes.
func (p *plans) possible(nodes []string) bool {
	e := exhaustive{failed: map[string]bool{}}
	for _, name := range nodes {
		e.nodes = append(e.nodes, p.want.rest(name))
	}
	for i := range p.gang.Roles {
		for range p.gang.Roles[i].Min {
			e.members = append(e.members, &p.gang.Roles[i].Shape)
		}
	}
	return e.search(0)
}

// possibleAnywhere reports whether the gang fits within its topology.
func (p *plans) possibleAnywhere() bool {
	for _, nodes := range p.areas() {
		if p.possible(nodes) {
			return true
		}
	}
	return false
}

func (e *exhaustive) search(member int) bool {
	if member == len(e.members) {
		return true
	}
	key := e.key(member)
	if e.failed[key] {
		return false
	}
	s := e.members[member]
	for i := range e.nodes {
		if !e.nodes[i].fits(s) {
			continue
		}
		before := e.nodes[i]
		for _, holds := range uses(&before, s) {
			e.nodes[i] = before.clone()
			e.nodes[i].take(holds)
			if e.search(member + 1) {
				return true
			}
		}
		e.nodes[i] = before
	}
	e.failed[key] = true
	return false
}

// key is equal if the remaining resources are.
func (e *exhaustive) key(member int) string {
	parts := make([]string, len(e.nodes))
	for i := range e.nodes {
		parts[i] = e.nodes[i].signature()
	}
	slices.Sort(parts)
	return fmt.Sprint(member, parts)
}

// uses returns all choices of cards for a shape that fits.
func uses(left *rest, s *placement.Shape) []placement.Use {
	base := placement.Use{CPU: s.CPU, Memory: s.Memory, Others: s.Others, Percent: min(placement.Card, s.Percent())}
	if s.Percent() == 0 {
		return []placement.Use{base}
	}
	usable, wanted := left.usable(s), max(1, s.GPUs)
	var list []placement.Use
	for subset := range 1 << len(usable) {
		one := base
		one.GPUs = nil
		for i, card := range usable {
			if subset>>i&1 == 1 {
				one.GPUs = append(one.GPUs, card)
			}
		}
		if len(one.GPUs) == wanted {
			list = append(list, one)
		}
	}
	return list
}

// planted returns a small and nearly full cluster, and a gang of several roles that fits
// because its members were there.
func planted(t *testing.T, d dice, policy placement.Policy) *plans {
	t.Helper()
	l := limits{nodes: 3, cards: 4, levels: 1}
	u := newUpdates(t, d, l)
	if policy != nil {
		u.cluster = placement.NewCluster(policy)
	}
	nodes := map[string]*rest{}
	for i := range l.nodes {
		n := randomNode(u, nodeName(i), l)
		n.Slots = 30
		if err := u.cluster.SetNode(n); err != nil {
			t.Fatal(err)
		}
		u.want.nodes[n.Name] = n
		left := u.want.rest(n.Name)
		nodes[n.Name] = &left
	}
	gang := &placement.Gang{}
	for range 5 {
		s := randomShape(u, l.cards)
		if left := nodes[u.node()]; left.fits(&s) {
			left.take(pick(u, uses(left, &s)...))
			addMember(gang, &s)
		}
	}
	for _, name := range u.want.names() {
		u.waste(nodes[name])
	}
	return &plans{u, gang}
}

// addMember adds a member to the role of its shape.
func addMember(g *placement.Gang, s *placement.Shape) {
	for i := range g.Roles {
		if g.Roles[i].Shape.Key() == s.Key() {
			g.Roles[i].Min++
			g.Roles[i].Max++
			return
		}
	}
	g.Roles = append(g.Roles, placement.Role{Shape: *s, Min: 1, Max: 1})
}

// waste uses up most of what is left of a node, but keeps room for the gang.
func (u *updates) waste(left *rest) {
	put := func(holds placement.Use) {
		u.pods++
		u.put(placement.Pod{Name: fmt.Sprintf("w%d", u.pods), Node: left.node.Name, Use: holds})
	}
	if !oneIn(u, 4) {
		put(placement.Use{CPU: left.cpu, Memory: left.memory, Others: placement.NewAmounts(left.others)})
	}
	for card, percent := range left.cards {
		if percent > 0 && !oneIn(u, 4) {
			put(placement.Use{GPUs: []int{card}, Percent: percent})
		}
	}
}

// misses counts the gangs that fit but for which no plan was found.
type misses struct {
	feasible, missed int
	first            string
}

func (m *misses) count(p *plans, found bool) {
	m.feasible++
	if found {
		return
	}
	m.missed++
	if m.first == "" {
		var parts []string
		for _, name := range p.want.names() {
			left := p.want.rest(name)
			parts = append(parts, name+": "+left.signature())
		}
		m.first = fmt.Sprintf("gang %+v on\n%s", p.gang, strings.Join(parts, "\n"))
	}
}

func (m *misses) share() float64 { return float64(m.missed) / float64(max(1, m.feasible)) }

// mostMissed is the share of feasible gangs of several roles for which finding no plan is
// accepted: which role gets what is a heuristic.
const mostMissed = 0.01

// policies returns the policies that gangs are planned with; nil is the tests' own.
func policies() map[string]func() placement.Policy {
	return map[string]func() placement.Policy{
		"whimsical": func() placement.Policy { return nil },
		"tightest":  func() placement.Policy { return tightest{} },
		"packing":   func() placement.Policy { return packing.New(packing.Default()) },
	}
}

func TestFewGangsOfSeveralRolesAreMissed(t *testing.T) {
	t.Parallel()
	for name, policy := range policies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m misses
			for seed := range uint64(800) {
				u := newUpdates(t, seeded(seed), limits{nodes: 3, cards: 4, levels: 1})
				if own := policy(); own != nil {
					u.cluster = placement.NewCluster(own)
				}
				for range 3 {
					u.setNode()
				}
				for range u.IntN(4) {
					u.place()
				}
				p := &plans{u, randomGang(u, 3, 2, u.limits)}
				if search(u.cluster.Root(), p.gang.Within) == nil {
					continue
				}
				if found := p.make() != nil; found || p.members() <= 5 && p.possibleAnywhere() {
					m.count(p, found)
				}
			}
			t.Logf("no plan for %d of %d gangs that fit: %.2f %%", m.missed, m.feasible, 100*m.share())
			if m.share() > mostMissed {
				t.Errorf("more than %v %%, the first: %s", 100*mostMissed, m.first)
			}
		})
	}
}

func TestFewGangsThatJustFitAreMissed(t *testing.T) {
	t.Parallel()
	for name, policy := range policies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m misses
			for seed := range uint64(1500) {
				p := planted(t, seeded(seed), policy())
				if len(p.gang.Roles) > 1 {
					m.count(p, p.make() != nil)
				}
			}
			t.Logf("no plan for %d of %d gangs that fit: %.2f %%", m.missed, m.feasible, 100*m.share())
			if m.share() > mostMissed {
				t.Errorf("more than %v %%, the first: %s", 100*mostMissed, m.first)
			}
		})
	}
}

func (p *plans) members() int {
	count := 0
	for i := range p.gang.Roles {
		count += p.gang.Roles[i].Min
	}
	return count
}
