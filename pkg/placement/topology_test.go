// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// near makes a gang ask for a level of domains.
func near(g *placement.Gang, level int, required bool) *placement.Gang {
	g.Level, g.Required = level, required
	return g
}

func confined(g *placement.Gang, within string) *placement.Gang {
	g.Within = within
	return g
}

func TestAGangKeepsToItsTopology(t *testing.T) {
	t.Parallel()
	const preferred, required = false, true
	// Zone z has the racks r (8 GPUs) and s (4 and 2 GPUs), zone y has a rack of 7;
	// one node is in no zone, one in zone y is in no rack.
	tree := func() []*nodeBuilder {
		return []*nodeBuilder{
			aNode("a", 8).in("z", "r"), aNode("b", 4).in("z", "s"), aNode("c", 2).in("z", "s"),
			aNode("d", 7).in("y", "q"), aNode("e", 3).in("y"), aNode("f", 5),
		}
	}
	tests := map[string]struct {
		gang    *placement.Gang
		want    string // the nodes in order; each once
		domains []string
	}{
		"without a topology anywhere":                  {gangOf(whole(1), 5, 5), "c e", nil},
		"the tightest rack":                            {near(gangOf(whole(1), 5, 5), 2, required), "c b", []string{"z/s"}},
		"a rack is preferred and found":                {near(gangOf(whole(1), 5, 5), 2, preferred), "c b", []string{"z/s"}},
		"of two equal racks the first":                 {near(gangOf(whole(3), 2, 2), 2, required), "d", []string{"y/q"}},
		"the only rack that is large enough":           {near(gangOf(whole(1), 8, 8), 2, required), "a", []string{"z/r"}},
		"no rack is large enough":                      {near(gangOf(whole(1), 9, 9), 2, required), "nowhere", nil},
		"two racks of one zone, not of two":            {near(gangOf(whole(1), 14, 14), 2, preferred), "a c b", []string{"z/r", "z/s"}},
		"the tightest zone, and no rack if that must":  {near(gangOf(whole(1), 9, 9), 2, preferred), "d e", []string{"y/q"}},
		"a zone is enough":                             {near(gangOf(whole(1), 9, 9), 1, required), "e d", []string{"y"}},
		"few racks of two zones":                       {near(gangOf(whole(1), 16, 16), 2, preferred), "a c b d", []string{"z/r", "z/s", "y/q"}},
		"a node without a zone comes last":             {near(gangOf(whole(1), 28, 28), 1, preferred), "", []string{"z", "y"}},
		"no zone has room for all nodes":               {near(gangOf(whole(1), 28, 28), 1, required), "nowhere", nil},
		"a level that there is not is in no domain":    {near(gangOf(whole(1), 1, 1), 3, required), "nowhere", nil},
		"a level that there is not does not keep away": {near(gangOf(whole(1), 1, 1), 3, preferred), "c", nil},
		"a domain is not left":                         {confined(gangOf(whole(1), 6, 6), "z/s"), "c b", nil},
		"a domain that is too small":                   {confined(gangOf(whole(1), 7, 7), "z/s"), "nowhere", nil},
		"a rack of a zone":                             {confined(near(gangOf(whole(1), 4, 4), 2, required), "y"), "d", []string{"y/q"}},
		"a rack, of which the zone is required":        {confined(near(gangOf(whole(1), 2, 2), 1, required), "z/r"), "a", []string{"z"}},
		"extras do not leave the required rack":        {near(gangOf(whole(1), 2, 20), 2, required), "a", []string{"z/r"}},
		"the tightest rack that has room for extras":   {near(gangOf(whole(1), 2, 6), 2, required), "c b", []string{"z/s"}},
		"extras do not leave the domain":               {confined(near(gangOf(whole(1), 2, 20), 1, preferred), "z/s"), "c b", []string{"z"}},
		"extras alone are in one required rack":        {near(gangOf(whole(1), 0, 20), 2, required), "a", []string{"z/r"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, fits, err := clusterOf(t, tree()...).Plan(test.gang)
			if err != nil {
				t.Fatal(err)
			}
			if !fits {
				if test.want != "nowhere" {
					t.Errorf("there is no plan, want %s", test.want)
				}
				return
			}
			if got := nodesOf(plan); test.want != "" && got != test.want {
				t.Errorf("got nodes %s, want %s", got, test.want)
			}
			if !slices.Equal(plan.Domains, test.domains) {
				t.Errorf("got domains %v, want %v", plan.Domains, test.domains)
			}
		})
	}
}

// TestLevelsThatNodesHaveNoLabelOfAreNoDomains has nodes that are in known leaves, but not in known racks or zones.
func TestLevelsThatNodesHaveNoLabelOfAreNoDomains(t *testing.T) {
	t.Parallel()
	const unknown, preferred, required = placement.Unnamed, false, true
	tree := func() []*nodeBuilder {
		return []*nodeBuilder{
			aNode("a", 4).in("x", unknown, "k"), aNode("b", 4).in("x", unknown, "l"), aNode("c", 3).in(unknown, unknown, "k"),
			aNode("d", 3).in(unknown, unknown, "m"), aNode("e", 2).in(unknown, "r", "n"), aNode("f", 1).in("x", "r", "n"),
		}
	}
	tests := map[string]struct {
		gang    *placement.Gang
		want    string // the nodes in order; each once
		domains []string
	}{
		"leaves of unknown racks are in no rack":           {near(gangOf(whole(1), 5, 5), 2, required), "nowhere", nil},
		"a leaf of an unknown rack is in no rack":          {near(gangOf(whole(1), 3, 3), 2, required), "nowhere", nil},
		"a rack of an unknown zone is a rack":              {near(gangOf(whole(1), 2, 2), 2, required), "e", []string{"-/r"}},
		"leaves of one zone are in the zone":               {near(gangOf(whole(1), 9, 9), 1, required), "f a b", []string{"x"}},
		"leaves of unknown zones are in no zone":           {near(gangOf(whole(1), 10, 10), 1, required), "nowhere", nil},
		"a leaf is a leaf":                                 {near(gangOf(whole(1), 3, 3), 3, required), "c", []string{"-/-/k"}},
		"leaves of the same name are not the same":         {near(gangOf(whole(1), 5, 5), 3, required), "nowhere", nil},
		"as few leaves as possible, in a zone if one does": {near(gangOf(whole(1), 8, 8), 3, preferred), "a b", []string{"x/-/k", "x/-/l"}},
		"a known rack is better than unknown ones":         {near(gangOf(whole(1), 2, 2), 2, preferred), "e", []string{"-/r"}},
		"nodes without a rack come after those with one":   {near(gangOf(whole(1), 3, 3), 2, preferred), "", nil},
		"all nodes, of which three have no zone":           {near(gangOf(whole(1), 17, 17), 1, preferred), "", []string{"x"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, fits, err := clusterOf(t, tree()...).Plan(test.gang)
			if err != nil {
				t.Fatal(err)
			}
			if !fits {
				if test.want != "nowhere" {
					t.Errorf("there is no plan, want %s", test.want)
				}
				return
			}
			if got := nodesOf(plan); test.want != "" && got != test.want {
				t.Errorf("got nodes %s, want %s", got, test.want)
			}
			if test.domains != nil && !slices.Equal(plan.Domains, test.domains) {
				t.Errorf("got domains %v, want %v", plan.Domains, test.domains)
			}
		})
	}
}

func TestTheRestOfAGangGoesWhereItFitsBest(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 5).in("u"), aNode("b", 8).in("v"), aNode("c", 3).in("w"), aNode("d", 1).in("x"))
	for members, want := range map[int][]string{9: {"v", "x"}, 10: {"v", "w"}, 11: {"v", "w"}, 12: {"v", "u"}, 14: {"v", "u", "x"}} {
		plan, fits, err := c.Plan(near(gangOf(whole(1), members, members), 1, false))
		if err != nil || !fits {
			t.Fatalf("%d members: fits is %v, %v", members, fits, err)
		}
		if !slices.Equal(plan.Domains, want) {
			t.Errorf("%d members are in %v, want %v", members, plan.Domains, want)
		}
	}
}

// nodesOf returns the nodes of a plan, each once, in the order of the members.
func nodesOf(plan *placement.Plan) string {
	var list []string
	for _, m := range plan.Members {
		if !slices.Contains(list, m.Node) {
			list = append(list, m.Node)
		}
	}
	text := fmt.Sprint(list)
	return text[1 : len(text)-1]
}

// roomiest returns the rooms of the domains of a level within another, largest first, and
// the tightest domain that suffices for some members.
func (p *plans) roomiest(level int, within string) (rooms []int, tightest string) {
	role, least := &p.gang.Roles[0], 0
	for _, name := range p.want.domains(level) {
		if !inside(name, within) {
			continue
		}
		room := p.want.room(p.want.within(name), &role.Shape)
		rooms = append(rooms, room)
		if room >= role.Min && (tightest == "" || room < least) {
			tightest, least = name, room
		}
	}
	slices.SortFunc(rooms, func(a, b int) int { return cmp.Compare(b, a) })
	return rooms, tightest
}

// fewestDomains returns how few domains have room for all members; ok is false if not
// even all domains do.
func fewestDomains(rooms []int, members int) (count int, ok bool) {
	for count < len(rooms) && members > 0 {
		members -= rooms[count]
		count++
	}
	return count, members <= 0
}

// randomTopology returns a cluster and a gang of one role with a topology.
func randomTopology(t *testing.T, seed uint64, levels int) *plans {
	t.Helper()
	u := randomCluster(t, seeded(seed), limits{nodes: 10, cards: 4, levels: levels}, 8)
	shape := randomShape(u, 3)
	members := 1 + u.IntN(12)
	return &plans{u, near(gangOf(shape, members, members), levels, false)}
}

func TestARequiredDomainIsTheTightest(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		p := randomTopology(t, seed, 2)
		p.gang.Required, p.gang.Level = true, 1+p.IntN(2)
		if within := pick(p, "", "x"); search(p.cluster.Root(), within) != nil {
			p.gang.Within = within
		}
		want := ""
		if p.gang.Within == "" || p.gang.Level == 2 {
			_, want = p.roomiest(p.gang.Level, p.gang.Within)
		} else if p.want.room(p.want.within("x"), &p.gang.Roles[0].Shape) >= p.gang.Roles[0].Min {
			want = "x"
		}
		got := ""
		if plan := p.make(); plan != nil {
			got = plan.Domains[0]
		}
		if got != want {
			t.Fatalf("seed %d: gang %+v is in %q, want %q", seed, p.gang, got, want)
		}
	}
}

// TestOneLevelIsSpreadOverTheFewestDomains has a tree of one level, where the
// fewest domains are the roomiest ones.
func TestOneLevelIsSpreadOverTheFewestDomains(t *testing.T) {
	t.Parallel()
	several := 0
	for seed := range uint64(500) {
		p := randomTopology(t, seed, 1)
		plan := p.make()
		role := &p.gang.Roles[0]
		if fits := p.want.room(p.want.names(), &role.Shape) >= role.Min; fits != (plan != nil) {
			t.Fatalf("seed %d: gang %+v: fits is %v, want %v", seed, p.gang, plan != nil, fits)
		}
		if plan == nil {
			continue
		}
		rooms, tightest := p.roomiest(1, "")
		count, enough := fewestDomains(rooms, role.Min)
		if enough && len(plan.Domains) != count {
			t.Fatalf("seed %d: gang %+v is in %v, %d domains would do: %v", seed, p.gang, plan.Domains, count, rooms)
		}
		if tightest != "" && plan.Domains[0] != tightest {
			t.Fatalf("seed %d: gang %+v is in %v, want %s", seed, p.gang, plan.Domains, tightest)
		}
		for _, m := range plan.Members {
			if enough && len(p.want.nodes[m.Node].Domains) == 0 {
				t.Fatalf("seed %d: gang %+v: node %s is in no domain", seed, p.gang, m.Node)
			}
		}
		if count > 1 {
			several++
		}
	}
	if several < 30 {
		t.Errorf("only %d gangs are in several domains", several)
	}
}

// TestTheNarrowestLevelThatSufficesIsOne has a tree of two levels: a gang that is
// in no single leaf is in a single rack if one suffices, and there in as few
// leaves as possible.
func TestTheNarrowestLevelThatSufficesIsOne(t *testing.T) {
	t.Parallel()
	plansOfSeveral, more := 0, 0
	for seed := range uint64(500) {
		p := randomTopology(t, seed, 2)
		plan := p.make()
		if plan == nil {
			continue
		}
		role := &p.gang.Roles[0]
		leaves, leaf := p.roomiest(2, "")
		_, rack := p.roomiest(1, "")
		switch {
		case leaf != "":
			if !slices.Equal(plan.Domains, []string{leaf}) {
				t.Fatalf("seed %d: gang %+v is in %v, want %s", seed, p.gang, plan.Domains, leaf)
			}
			continue
		case rack != "":
			for _, m := range plan.Members {
				if !inside(p.path(m.Node), rack) {
					t.Fatalf("seed %d: gang %+v: node %s in %s is outside of %s", seed, p.gang, m.Node, p.path(m.Node), rack)
				}
			}
			its, _ := p.roomiest(2, rack)
			if count, enough := fewestDomains(its, role.Min); enough && len(plan.Domains) != count {
				t.Fatalf("seed %d: gang %+v is in %v, %d leaves of %s would do: %v", seed, p.gang, plan.Domains, count, rack, its)
			}
		}
		plansOfSeveral++
		if count, enough := fewestDomains(leaves, role.Min); enough && len(plan.Domains) > count {
			more++
		}
	}
	t.Logf("of %d gangs in several leaves %d are in more than would do if racks did not count", plansOfSeveral, more)
	if plansOfSeveral < 30 {
		t.Errorf("only %d gangs are in several leaves", plansOfSeveral)
	}
}

// FuzzPlan plans a gang in a cluster, both of which are derived from bytes.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a cluster of some nodes, and a gang that may or may not fit there"))
	for seed := range uint64(6) {
		d := seeded(seed)
		bytes := make([]byte, 200)
		for i := range bytes {
			bytes[i] = byte(d.IntN(256))
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		d := &program{bytes[:min(len(bytes), 500)]}
		u := randomCluster(t, d, limits{nodes: 4, cards: 4, levels: 2}, 4)
		p := plans{u, randomGang(u, 2, 4, u.limits)}
		if plan := p.make(); plan == nil && len(p.gang.Roles) == 1 && search(u.cluster.Root(), p.gang.Within) != nil && p.possibleAnywhere() {
			t.Fatalf("gang %+v fits, but there is no plan", p.gang)
		}
		u.want.check(t, u.cluster, []placement.Shape{p.gang.Roles[0].Shape})
	})
}
