// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// constraints are what the engine does not know, as a Checker.
type constraints struct {
	zones map[string]string // of the nodes
	// never are nodes that refuse a role.
	never map[int]map[string]bool
	// apart are pairs of roles that may not be on one node; a role may be apart from itself.
	apart map[[2]int]bool
	// follows are roles whose members may only go to a zone where the other role is.
	follows map[int]int
	// spread are roles of which no zone may have more than one member more than another.
	spread map[int]bool
	placed []placedMember
	// patience is how many questions are answered; 0 is any number.
	patience, asked int
}

type placedMember struct {
	role int
	node string
}

func (r *constraints) Place(role int, node string) placement.Judgement {
	if r.asked++; r.patience > 0 && r.asked > r.patience {
		return placement.Exhausted
	}
	judgement := r.judge(role, node)
	if judgement == placement.Accepted {
		r.placed = append(r.placed, placedMember{role, node})
	}
	return judgement
}

func (r *constraints) Undo() { r.placed = r.placed[:len(r.placed)-1] }

func (r *constraints) judge(role int, node string) placement.Judgement {
	if r.never[role][node] {
		return placement.NeverAccepted
	}
	other, follows := r.follows[role]
	found := false
	inZone := map[string]int{}
	for _, zone := range r.zones {
		inZone[zone] = 0
	}
	for _, m := range r.placed {
		if m.node == node && (r.apart[[2]int{role, m.role}] || r.apart[[2]int{m.role, role}]) {
			return placement.Refused
		}
		found = found || m.role == other && r.zones[m.node] == r.zones[node]
		if m.role == role {
			inZone[r.zones[m.node]]++
		}
	}
	if follows && !found {
		return placement.RefusedForNow
	}
	if r.spread[role] {
		for _, count := range inZone {
			if inZone[r.zones[node]] > count {
				return placement.RefusedForNow
			}
		}
	}
	return placement.Accepted
}

// inZones returns a cluster of nodes with two GPUs each in the given zones, and rules for it.
func inZones(t *testing.T, zones ...string) (*placement.Cluster, *constraints) {
	t.Helper()
	r := &constraints{zones: map[string]string{}, never: map[int]map[string]bool{}, apart: map[[2]int]bool{}, follows: map[int]int{}, spread: map[int]bool{}}
	nodes := make([]*nodeBuilder, len(zones))
	for i, zone := range zones {
		name := fmt.Sprintf("n%d", i)
		nodes[i] = aNode(name, 2).in(zone)
		r.zones[name] = zone
	}
	return clusterOf(t, nodes...), r
}

func TestAGangIsPlacedWhereTheCheckerAcceptsIt(t *testing.T) {
	t.Parallel()
	oneGPU := placement.Shape{GPUs: 1}
	tests := map[string]struct {
		zones     []string
		roles     []int // members of each role
		constrain func(*constraints)
		level     int
		want      bool
	}{
		"a node that refuses a role is avoided":             {[]string{"a", "a"}, []int{2}, func(r *constraints) { r.never[0] = map[string]bool{"n0": true} }, 0, true},
		"all nodes with room refuse it":                     {[]string{"a"}, []int{2}, func(r *constraints) { r.never[0] = map[string]bool{"n0": true} }, 0, false},
		"members that may not share a node get one each":    {[]string{"a", "a", "a"}, []int{3}, func(r *constraints) { r.apart[[2]int{0, 0}] = true }, 0, true},
		"there are fewer nodes than members that are apart": {[]string{"a", "a"}, []int{3}, func(r *constraints) { r.apart[[2]int{0, 0}] = true }, 0, false},
		"a refusal of one role is not one of another":       {[]string{"a"}, []int{1, 1}, func(r *constraints) { r.follows[1] = 0 }, 0, true},
		"a role that comes first must come second":          {[]string{"a", "b"}, []int{1, 2}, func(r *constraints) { r.follows[0] = 1 }, 0, true},
		"members are spread over zones":                     {[]string{"a", "a", "b"}, []int{4}, func(r *constraints) { r.spread[0] = true }, 0, true},
		"a zone is too small to spread evenly":              {[]string{"a", "a", "a", "b"}, []int{6}, func(r *constraints) { r.spread[0] = true }, 0, false},
		"the tightest zone refuses, another takes the gang": {[]string{"a", "b", "b"}, []int{2}, func(r *constraints) { r.never[0] = map[string]bool{"n0": true} }, 1, true},
		"followers need the zone in which there is room":    {[]string{"a", "b", "b"}, []int{1, 3}, func(r *constraints) { r.follows[1] = 0 }, 0, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := inZones(t, test.zones...)
			test.constrain(r)
			g := &placement.Gang{Checker: r, Level: test.level, Required: test.level > 0}
			for _, count := range test.roles {
				g.Roles = append(g.Roles, placement.Role{Shape: oneGPU, Min: count, Max: count})
			}
			checkAgainstRules(t, c, r, g, test.want)
		})
	}
}

// checkAgainstRules plans a gang, and plays a plan back against the rules.
func checkAgainstRules(t *testing.T, c *placement.Cluster, r *constraints, g *placement.Gang, want bool) {
	t.Helper()
	free := c.Root().Percent()
	plan, fits, err := c.Plan(g)
	if err != nil || fits != want {
		t.Fatalf("fits %t, error %v, want %t; roles %+v, constraints %+v", fits, err, want, g.Roles, r)
	}
	if c.Root().Percent() != free {
		t.Errorf("the cluster has changed: %d %% are free, there were %d %%", c.Root().Percent(), free)
	}
	if !fits {
		return
	}
	r.placed, r.patience = nil, 0
	for _, m := range plan.Members {
		if judgement := r.Place(m.Role, m.Node); judgement != placement.Accepted {
			t.Errorf("role %d on node %s: judgement %d; the plan is %+v", m.Role, m.Node, judgement, plan.Members)
		}
	}
}

func TestASearchEndsWhenTheCheckerHasNoTimeLeft(t *testing.T) {
	t.Parallel()
	c, r := inZones(t, "a", "a", "a", "a")
	r.patience, r.apart[[2]int{0, 0}] = 2, true
	g := &placement.Gang{Checker: r, Roles: []placement.Role{{Shape: placement.Shape{GPUs: 1}, Min: 4, Max: 4}}}
	checkAgainstRules(t, c, r, g, false)
	if r.asked > 3 {
		t.Errorf("it was asked %d times", r.asked)
	}
}

// TestAPlanIsFoundIfThereIsOne compares random cases with a search through all sequences of
// placements.
func TestAPlanIsFoundIfThereIsOne(t *testing.T) {
	t.Parallel()
	found := 0
	const cases = 2000
	for seed := range uint64(cases) {
		d := seeded(seed)
		c, r, g := randomConstraints(t, d)
		want := anySequence(t, c, r, g)
		if want {
			found++
		}
		r.placed = nil
		checkAgainstRules(t, c, r, g, want)
	}
	if found < cases/10 || found > cases*9/10 {
		t.Errorf("%d of %d cases have a plan: they are too easy or too hard", found, cases)
	}
}

func randomConstraints(t *testing.T, d dice) (*placement.Cluster, *constraints, *placement.Gang) {
	t.Helper()
	zones := make([]string, d.IntN(4)+1)
	for i := range zones {
		zones[i] = []string{"a", "b", "c"}[d.IntN(3)]
	}
	c, r := inZones(t, zones...)
	g := &placement.Gang{Checker: r}
	for role := range d.IntN(3) + 1 {
		count := d.IntN(3) + 1
		g.Roles = append(g.Roles, placement.Role{Shape: placement.Shape{GPUs: d.IntN(2) + 1, CPU: int64(role)}, Min: count, Max: count})
		r.never[role] = map[string]bool{}
		for node := range r.zones {
			if d.IntN(4) == 0 {
				r.never[role][node] = true
			}
		}
		switch d.IntN(5) {
		case 0:
			r.apart[[2]int{role, d.IntN(role + 1)}] = true
		case 1:
			if role > 0 {
				r.follows[role] = d.IntN(role)
			}
		case 2:
			r.spread[role] = true
		}
	}
	return c, r, g
}

// anySequence reports whether any order of placing the members leads to a plan.
func anySequence(t *testing.T, c *placement.Cluster, r *constraints, g *placement.Gang) bool {
	t.Helper()
	counts := make([]int, len(g.Roles))
	left := 0
	for i := range g.Roles {
		counts[i] = g.Roles[i].Min
		left += counts[i]
	}
	failed := map[string]bool{}
	var run func(left int) bool
	run = func(left int) bool {
		if left == 0 {
			return true
		}
		key := setOf(r.placed)
		if failed[key] {
			return false
		}
		for role := range counts {
			if counts[role] == 0 {
				continue
			}
			for node := range r.zones {
				place, fits := c.On(node, c.Request(g.Roles[role].Shape))
				if !fits || r.Place(role, node) != placement.Accepted {
					continue
				}
				name := fmt.Sprint("member-", left)
				if err := c.Place(placement.Pod{Name: name, Node: node, Use: place.Use}); err != nil {
					t.Fatal(err)
				}
				counts[role]--
				found := run(left - 1)
				counts[role]++
				c.Remove(name)
				r.Undo()
				if found {
					return true
				}
			}
		}
		failed[key] = true
		return false
	}
	return run(left)
}

// setOf identifies which members are where, whatever their order.
func setOf(placed []placedMember) string {
	counts := map[placedMember]int{}
	for _, m := range placed {
		counts[m]++
	}
	return fmt.Sprint(counts) // maps are printed in the order of their keys
}
