// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestGangsAreValidated(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		gang placement.Gang
		want string
	}{
		"without roles":                {placement.Gang{}, "roles: at least one is needed"},
		"with a bad shape":             {placement.Gang{Roles: []placement.Role{{Max: 1}, {Shape: shapeOf{CPU: -1}, Max: 1}}}, "roles[1]: CPU: must not be negative"},
		"with a negative minimum":      {placement.Gang{Roles: []placement.Role{{Min: -1, Max: 1}}}, "roles[0]: needs 0 ≤ min ≤ max, has min -1, max 1"},
		"with a minimum above maximum": {placement.Gang{Roles: []placement.Role{{Min: 2, Max: 1}}}, "has min 2, max 1"},
		"with nobody":                  {placement.Gang{Roles: []placement.Role{{}}}, "at least one needs a maximum"},
		"with a negative level":        {placement.Gang{Roles: []placement.Role{{Max: 1}}, Level: -1}, "level: must not be negative, is -1"},
		"in a domain that is not":      {placement.Gang{Roles: []placement.Role{{Max: 1}}, Within: "z/r"}, `within: there is no domain "z/r"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, aNode("n", 1).in("z", "s"))
			plan, fits, err := c.Plan(&test.gang)
			if err == nil || !strings.Contains(err.Error(), test.want) || fits || plan != nil {
				t.Errorf("got %v, %v, %v, want %q", plan, fits, err, test.want)
			}
		})
	}
}

// places returns where a gang goes: "n:0,1 n:2 m" for nodes and their GPUs.
func places(t *testing.T, c *placement.Cluster, g *placement.Gang) string {
	t.Helper()
	plan, fits, err := c.Plan(g)
	if err != nil {
		t.Fatal(err)
	}
	if !fits {
		return "nowhere"
	}
	var parts []string
	for _, m := range plan.Members {
		text := m.Node
		if len(m.GPUs) > 0 {
			text += ":" + strings.Trim(strings.ReplaceAll(fmt.Sprint(m.GPUs), " ", ","), "[]")
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// gangOf returns a gang of one role.
func gangOf(shape placement.Shape, least, most int) *placement.Gang {
	return &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: least, Max: most}}}
}

func TestAGangIsPlacedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	cpu := func(milli int64) placement.Shape { return shapeOf{CPU: milli} }
	tests := map[string]struct {
		nodes []*nodeBuilder
		gang  *placement.Gang
		want  string
	}{
		"it fits on one node":               {[]*nodeBuilder{aNode("a", 8)}, gangOf(whole(4), 2, 2), "a:0,1,2,3 a:4,5,6,7"},
		"it fits on two":                    {[]*nodeBuilder{aNode("a", 8), aNode("b", 4)}, gangOf(whole(4), 3, 3), "b:0,1,2,3 a:0,1,2,3 a:4,5,6,7"},
		"one member is too many":            {[]*nodeBuilder{aNode("a", 8), aNode("b", 4)}, gangOf(whole(4), 4, 4), "nowhere"},
		"shares share a card":               {[]*nodeBuilder{aNode("a", 2)}, gangOf(share(50), 4, 4), "a:0 a:0 a:1 a:1"},
		"slots limit":                       {[]*nodeBuilder{aNode("a", 8).size(9000, 9000, 2)}, gangOf(whole(1), 3, 3), "nowhere"},
		"extras join while there is room":   {[]*nodeBuilder{aNode("a", 8)}, gangOf(whole(3), 1, 9), "a:0,1,2 a:3,4,5"},
		"extras only":                       {[]*nodeBuilder{aNode("a", 2)}, gangOf(whole(1), 0, 1), "a:0"},
		"extras that do not fit do no harm": {[]*nodeBuilder{aNode("a", 2)}, gangOf(whole(4), 0, 1), ""},
		"nobody fits on no node":            {nil, gangOf(whole(1), 1, 1), "nowhere"},
		"large members first": {
			[]*nodeBuilder{aNode("a", 4), aNode("b", 4)},
			&placement.Gang{Roles: []placement.Role{{Shape: whole(1), Min: 4, Max: 4}, {Shape: whole(4), Min: 1, Max: 1}}},
			"a:0,1,2,3 b:0 b:1 b:2 b:3",
		},
		"a role without a minimum does not keep others out": {
			[]*nodeBuilder{aNode("a", 4)},
			&placement.Gang{Roles: []placement.Role{{Shape: whole(3), Max: 1}, {Shape: whole(2), Min: 1, Max: 1}}},
			"a:0,1",
		},
		"a role without GPUs goes beside": {
			[]*nodeBuilder{aNode("a", 1).size(5000, 5000, 2), aNode("b", 0).size(2000, 5000, 2)},
			&placement.Gang{Roles: []placement.Role{{Shape: cpu(2000), Min: 1, Max: 1}, {Shape: shapeOf{CPU: 4000, GPUs: 1}, Min: 1, Max: 1}}},
			"a:0 b",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := places(t, clusterOf(t, test.nodes...), test.gang); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// randomCluster returns a cluster after a number of random changes.
func randomCluster(t *testing.T, d dice, l limits, steps int) *updates {
	t.Helper()
	u := newUpdates(t, d, l)
	for i := range l.nodes {
		n := randomNode(u, nodeName(i), l)
		if err := u.cluster.SetNode(n); err != nil {
			t.Fatal(err)
		}
		u.want.nodes[n.Name] = n
	}
	for range steps {
		u.place()
	}
	return u
}

func TestPlansAreFeasibleAndChangeNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		u := randomCluster(t, seeded(seed), limits{nodes: 8, cards: 6, levels: 2}, 5)
		for range 5 {
			p := plans{u, randomGang(u, 3, 5, u.limits)}
			if plan := p.make(); plan != nil && oneIn(u, 4) {
				for _, m := range plan.Members {
					u.pods++
					u.put(placement.Pod{Name: fmt.Sprintf("p%d", u.pods), Node: m.Node, Use: m.Use})
				}
			}
		}
		u.want.check(t, u.cluster, []placement.Shape{randomShape(u, 4)})
	}
}

func TestAGangOfOneRoleFitsIfThereIsRoom(t *testing.T) {
	t.Parallel()
	fitting, rounds := 0, 0
	for seed := range uint64(600) {
		u := randomCluster(t, seeded(seed), limits{nodes: 5, cards: 4, levels: 2}, 6)
		p := plans{u, randomGang(u, 1, 6, u.limits)}
		if p.gang.Within != "" && search(u.cluster.Root(), p.gang.Within) == nil {
			continue
		}
		role, want := &p.gang.Roles[0], false
		for _, nodes := range p.areas() {
			want = want || u.want.room(nodes, &role.Shape) >= role.Min
		}
		rounds++
		if want {
			fitting++
		}
		if plan := p.make(); (plan != nil) != want {
			t.Fatalf("seed %d: gang %+v: plan %+v, but it fits is %v", seed, p.gang, plan, want)
		}
	}
	if fitting < rounds/4 || fitting > rounds*3/4 {
		t.Errorf("%d of %d gangs fit: this tests only one side", fitting, rounds)
	}
}
