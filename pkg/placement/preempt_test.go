// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// figures are the results of random preemptions.
type figures struct {
	// possible counts those for which victims exist, found those for which some were
	// found; reducible, higher and dearer those with more, higher or more costly
	// victims than necessary.
	possible, found, reducible, higher, dearer int
}

func (f *figures) percent(count int) float64 {
	return 100 * float64(count) / float64(max(1, f.possible))
}

// preemptions compares random preemptions with the oracle.
func preemptions(t *testing.T, worlds int, of func(seed uint64) (*world, *placement.Gang), budgets, oneRole bool) figures {
	t.Helper()
	var f figures
	for seed := range uint64(worlds) {
		w, gang := of(seed)
		if oneRole {
			gang.Roles = gang.Roles[:1]
		}
		r := randomRules(w, seed, budgets)
		if seed%8 == 0 {
			gang.Except = []string{w.nodes[0].Name}
		}
		c := w.cluster(t)
		result, found, err := c.Preempt(gang, r.rules())
		if err != nil {
			t.Fatal(err)
		}
		if gang.Except != nil {
			r.world = r.closing(gang.Except[0])
		}
		best, possible := r.cheapestVictims(gang)
		if found && !possible {
			t.Fatalf("seed %d: %v leave, but there is no way", seed, result.Victims)
		}
		if !possible || len(best) == 0 {
			continue
		}
		f.possible++
		if !found {
			continue
		}
		f.found++
		if !r.permitted(result.Victims) {
			t.Errorf("seed %d: %v may not leave", seed, result.Victims)
		}
		checkAfter(t, r, gang, result)
		if r.reducible(result.Victims, gang) {
			f.reducible++
		}
		if a, b := r.merit(result.Victims), r.merit(best); a.highest > b.highest {
			f.higher++
		} else if a.compare(b) > 0 {
			f.dearer++
		}
	}
	t.Logf("of %d that are possible: %.2f %% missed, %.2f %% reducible, %.2f %% too high, %.2f %% dearer than need be",
		f.possible, f.percent(f.possible-f.found), f.percent(f.reducible), f.percent(f.higher), f.percent(f.dearer))
	return f
}

// checkAfter evicts the victims and checks the result.
func checkAfter(t *testing.T, r *ruledWorld, gang *placement.Gang, result *placement.Preemption) {
	t.Helper()
	c := r.cluster(t)
	again, _, _ := c.Preempt(gang, r.rules())
	if !reflect.DeepEqual(again, result) {
		t.Errorf("another answer to the same question: %+v and %+v", result, again)
	}
	if !slices.IsSorted(result.Victims) || !r.without(result.Victims...).fits(gang) {
		t.Errorf("does not fit when %v have left", result.Victims)
	}
	for _, name := range result.Victims {
		c.Remove(name)
	}
	plan, fits, err := c.Plan(gang)
	if err != nil || !fits || !reflect.DeepEqual(plan, result.Plan) {
		t.Errorf("the plan is %+v, %v, promised was %+v", plan, err, result.Plan)
	}
}

// closing returns the world with a closed node.
func (w *world) closing(node string) *world {
	other := *w
	other.nodes = slices.Clone(w.nodes)
	for i := range other.nodes {
		other.nodes[i].Closed = other.nodes[i].Closed || other.nodes[i].Name == node
	}
	return &other
}

// TestVictimsAreTheFewestAndLowest compares with all sets of Pods. The accepted error
// rates, in percent, come from larger runs.
func TestVictimsAreTheFewestAndLowest(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		worlds           int
		of               func(seed uint64) (*world, *placement.Gang)
		budgets, oneRole bool
		// missed and dearer are percentages, higher as well.
		missed, higher, dearer float64
	}{
		"one role":                           {1500, randomWorld, false, true, 0, 0, 1},
		"several roles":                      {1500, randomWorld, false, false, 0.2, 0.2, 1.5},
		"one role, with budgets":             {1500, randomWorld, true, true, 0.5, 0.2, 1},
		"several roles, with budgets":        {1500, randomWorld, true, false, 0.5, 0.2, 1.5},
		"a larger gang":                      {400, crowdedWorld, false, true, 0, 0, 2},
		"a larger gang, with scarce budgets": {400, crowdedWorld, true, true, 2, 0.5, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := preemptions(t, test.worlds, test.of, test.budgets, test.oneRole)
			if f.possible < 100 {
				t.Errorf("only %d are possible: this proves little", f.possible)
			}
			if f.reducible > 0 {
				t.Errorf("%d sets of victims have some that can stay", f.reducible)
			}
			if f.percent(f.possible-f.found) > test.missed || f.percent(f.higher) > test.higher || f.percent(f.dearer) > test.dearer {
				t.Errorf("got %+v, at most %+v", f, test)
			}
		})
	}
}

// party is Pods of one GPU or more each on a node.
type party struct {
	node     string
	gpus     int
	priority int32
	group    string
	budget   string
	fixed    bool
}

// lostHours is the work that Pods lose, in GPU-hours.
func lostHours(hours map[string]float64) func(*placement.Pod) float64 {
	return func(pod *placement.Pod) float64 { return hours[pod.Name] * 3600 }
}

func TestVictimsFollowTheRules(t *testing.T) {
	t.Parallel()
	one := func(node string, priority int32) party { return party{node: node, gpus: 1, priority: priority} }
	two := func(node string, priority int32) party { return party{node: node, gpus: 2, priority: priority} }
	of := func(group string, p party) party { p.group = group; return p }
	counted := func(budget string, p party) party { p.budget = budget; return p }
	fixed := func(p party) party { p.fixed = true; return p }
	twoGPUs, fourGPUs := gangOf(whole(2), 1, 1), gangOf(whole(4), 1, 1)
	tests := map[string]struct {
		// pods are p0, p1, … on the nodes a and b, of 4 GPUs, in leaves of these names.
		pods  []party
		gang  *placement.Gang
		rules func(*placement.PreemptionRules)
		want  string // "none" if there are no victims
	}{
		"the lowest priority goes, even if more have to": {
			[]party{two("a", 5), two("a", 5), one("b", 4), one("b", 4), two("b", 9)}, twoGPUs, nil, "p2 p3"},
		"of equal highest ones fewer go": {
			[]party{two("a", 5), two("a", 5), one("b", 5), one("b", 5), two("b", 9)}, twoGPUs, nil, "p0"},
		"one of the highest goes rather than two": {
			[]party{one("a", 5), one("a", 5), two("a", 9), one("b", 5), one("b", 4), two("b", 9)}, twoGPUs, nil, "p3 p4"},
		"what is protected stays": {
			[]party{fixed(two("a", 0)), two("a", 5), two("b", 9), two("b", 9)}, twoGPUs, nil, "p1"},
		"it does not fit if too much is protected": {
			[]party{fixed(one("a", 0)), two("a", 0), one("a", 0), fixed(one("b", 0)), two("b", 0), one("b", 0)}, fourGPUs, nil, "none"},
		"a group leaves whole": {
			[]party{of("g", two("a", 1)), two("a", 9), of("g", two("b", 1)), two("b", 9)}, twoGPUs, nil, "p0 p2"},
		"a group is more than a Pod": {
			[]party{of("g", two("a", 1)), two("a", 9), of("g", two("b", 1)), two("b", 1)}, twoGPUs, nil, "p3"},
		"a group with a protected member stays": {
			[]party{of("g", two("a", 1)), two("a", 9), of("g", fixed(two("b", 1))), two("b", 9)}, twoGPUs, nil, "p1"},
		"a spare member leaves alone, of equal ones the last": {
			[]party{of("g", two("a", 1)), two("a", 9), of("g", two("b", 1)), two("b", 9)}, twoGPUs,
			func(r *placement.PreemptionRules) { r.Spare = func(string) int { return 1 } }, "p2"},
		"of the spare members the lowest leaves": {
			[]party{of("g", two("a", 1)), two("a", 9), of("g", two("b", 2)), two("b", 9)}, twoGPUs,
			func(r *placement.PreemptionRules) { r.Spare = func(string) int { return 1 } }, "p0"},
		"a spare member leaves though another is protected": {
			[]party{of("g", two("a", 1)), two("a", 9), of("g", fixed(two("b", 1))), two("b", 9)}, twoGPUs,
			func(r *placement.PreemptionRules) { r.Spare = func(string) int { return 1 } }, "p0"},
		"where the spare ones do not suffice the whole group leaves": {
			[]party{of("g", two("a", 1)), of("g", two("a", 1)), of("g", two("b", 1)), fixed(two("b", 9))}, fourGPUs,
			func(r *placement.PreemptionRules) { r.Spare = func(string) int { return 1 } }, "p0 p1 p2"},
		"an exhausted budget protects": {
			[]party{counted("none", two("a", 1)), two("a", 9), two("b", 8), two("b", 9)}, twoGPUs, nil, "p2"},
		"a budget that is not told of allows nothing": {
			[]party{counted("unknown", two("a", 1)), two("a", 9), two("b", 8), two("b", 9)}, twoGPUs, nil, "p2"},
		"a budget is not exceeded together": {
			[]party{counted("one", two("a", 1)), counted("one", two("a", 1)), two("b", 1), two("b", 9)}, fourGPUs, nil, "p2 p3"},
		"a budget is used where it is needed": {
			[]party{counted("one", one("a", 1)), fixed(two("a", 1)), one("a", 1), counted("one", two("b", 3)), fixed(two("b", 1))},
			gangOf(whole(2), 2, 2), nil, "none"},
		"a gang takes several nodes": {
			[]party{two("a", 1), two("a", 2), two("b", 3), two("b", 9)}, gangOf(whole(2), 3, 3), nil, "p0 p1 p2"},
		"members above the minimum are no reason": {
			[]party{two("a", 1), two("a", 2), two("b", 3), two("b", 9)}, gangOf(whole(2), 1, 4), nil, "p0"},
		"a required leaf is kept": {
			[]party{two("a", 1), two("a", 5), two("b", 3), two("b", 4)},
			&placement.Gang{Roles: gangOf(whole(2), 2, 2).Roles, Level: 1, Required: true}, nil, "p2 p3"},
		"a preferred leaf is worth no victim": {
			[]party{two("a", 1), two("a", 5), two("b", 3), two("b", 4)},
			&placement.Gang{Roles: gangOf(whole(2), 2, 2).Roles, Level: 1}, nil, "p0 p2"},
		"of equal victims those in one leaf go": {
			[]party{two("a", 1), two("a", 1), two("b", 1), two("b", 1)},
			&placement.Gang{Roles: gangOf(whole(2), 2, 2).Roles, Level: 1}, nil, "p0 p1"},
		"an excepted node is not cleared": {
			[]party{two("a", 1), two("a", 1), two("b", 3), two("b", 4)}, excepting(gangOf(whole(2), 1, 1), "a"), nil, "p2"},
		"what is outside of the domain stays": {
			[]party{two("a", 1), two("a", 1), two("b", 3), two("b", 4)},
			&placement.Gang{Roles: gangOf(whole(2), 1, 1).Roles, Within: "leaf-b"}, nil, "p2"},
		"a node that the selector does not admit is not cleared": {
			[]party{two("a", 1), two("a", 1), two("b", 3), two("b", 4)}, gangOf(on(letters("b"), whole(2)), 1, 1), nil, "p2"},
		"roles of different needs": {
			[]party{two("a", 1), two("a", 2), one("b", 3), one("b", 9), two("b", 9)},
			&placement.Gang{Roles: []placement.Role{{Shape: whole(1), Min: 1, Max: 1}, {Shape: whole(4), Min: 1, Max: 1}}}, nil, "p0 p1 p2"},
		"of equal victims that goes which loses the least work": {
			[]party{two("a", 1), two("a", 1), two("b", 1), two("b", 1)}, twoGPUs,
			func(r *placement.PreemptionRules) {
				r.Lost = lostHours(map[string]float64{"p0": 9, "p1": 8, "p2": 1, "p3": 7})
			}, "p2"},
		"a group that loses little goes rather than one that loses much": {
			[]party{of("g", two("a", 1)), of("g", two("a", 1)), of("h", two("b", 1)), of("h", two("b", 1))}, fourGPUs,
			func(r *placement.PreemptionRules) { r.Lost = lostHours(map[string]float64{"p0": 9, "p1": 9}) }, "p2 p3"},
		"lost work is worth less than a point of priority": {
			[]party{two("a", 1), two("a", 9), two("b", 2), two("b", 9)}, twoGPUs,
			func(r *placement.PreemptionRules) { r.Lost = lostHours(map[string]float64{"p0": 1e6}) }, "p0"},
		"lost work is worth less than another victim": {
			[]party{two("a", 1), two("a", 9), one("b", 1), one("b", 1), two("b", 9)}, twoGPUs,
			func(r *placement.PreemptionRules) { r.Lost = lostHours(map[string]float64{"p0": 0.5}) }, "p0"},
		"nobody who may leave": {
			[]party{two("a", 1), two("a", 1), two("b", 3), two("b", 4)}, twoGPUs,
			func(r *placement.PreemptionRules) { r.Victim = nil }, "none"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, aNode("a", 4).in("leaf-a").traits("a"), aNode("b", 4).in("leaf-b").traits("b"))
			rules := partyRules(t, c, test.pods)
			if test.rules != nil {
				test.rules(&rules)
			}
			result, found, err := c.Preempt(test.gang, rules)
			if err != nil {
				t.Fatal(err)
			}
			got := "none"
			if found {
				got = strings.Join(result.Victims, " ")
			}
			if got != test.want {
				t.Errorf("%s leave, want %s", got, test.want)
			}
		})
	}
}

// partyRules runs Pods and returns rules for them.
func partyRules(t *testing.T, c *placement.Cluster, pods []party) placement.PreemptionRules {
	t.Helper()
	byName, next := map[string]party{}, map[string]int{}
	for i, p := range pods {
		holds := use(placement.Card)
		for range p.gpus {
			holds.GPUs = append(holds.GPUs, next[p.node])
			next[p.node]++
		}
		name := fmt.Sprint("p", i)
		run(t, c, name, p.node, holds)
		byName[name] = p
	}
	return placement.PreemptionRules{
		Victim:  func(pod *placement.Pod) (int32, bool) { return byName[pod.Name].priority, !byName[pod.Name].fixed },
		Group:   func(pod *placement.Pod) string { return byName[pod.Name].group },
		Budgets: func(pod *placement.Pod) []string { return strings.Fields(byName[pod.Name].budget) },
		Allowed: map[string]int{"one": 1, "none": 0},
	}
}

func TestAFittingGangNeedsNoVictims(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 4))
	rules := partyRules(t, c, []party{{node: "a", gpus: 2}})
	result, found, err := c.Preempt(gangOf(whole(2), 1, 1), rules)
	if err != nil || !found || len(result.Victims) > 0 || len(result.Plan.Members) != 1 {
		t.Errorf("got %+v, %v, %v", result, found, err)
	}
	if _, found, err := c.Preempt(&placement.Gang{}, rules); found || err == nil {
		t.Errorf("a gang without roles: found %v, %v", found, err)
	}
}

// TestALargeGroupThatIsWorthItLeaves has a group that costs more to evict than any
// single Pod, but frees all nodes at once.
func TestALargeGroupThatIsWorthItLeaves(t *testing.T) {
	t.Parallel()
	var nodes []*nodeBuilder
	var pods []party
	var want []string
	for i := range 8 {
		nodes = append(nodes, aNode(nodeName(i), 4), aNode("other"+nodeName(i), 4))
		want = append(want, fmt.Sprint("p", len(pods)))
		pods = append(pods, party{node: nodeName(i), gpus: 4, group: "g"})
		pods = append(pods, party{node: "other" + nodeName(i), gpus: 2}, party{node: "other" + nodeName(i), gpus: 2})
	}
	c := clusterOf(t, nodes...)
	result, found, err := c.Preempt(gangOf(whole(4), 8, 8), partyRules(t, c, pods))
	slices.Sort(want)
	if err != nil || !found || !slices.Equal(result.Victims, want) {
		t.Errorf("got %+v, %v, %v, want %v", result, found, err, want)
	}
}

// TestPreemptChangesNothing uses clusters of all sorts.
func TestPreemptChangesNothing(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(1000) {
		u := newUpdates(t, seeded(seed), limits{nodes: 5, cards: 5, levels: 2})
		for range 60 {
			u.step()
		}
		g := randomGang(u, 2, 3, u.limits)
		if search(u.cluster.Root(), g.Within) == nil {
			continue
		}
		states := u.states()
		result, ok, err := u.cluster.Preempt(g, placement.PreemptionRules{
			Victim:  func(p *placement.Pod) (int32, bool) { return int32(len(p.GPUs)), !strings.HasSuffix(p.Name, "7") },
			Group:   func(p *placement.Pod) string { return strings.Trim(p.Name[len(p.Name)-1:], "3456789") },
			Spare:   func(string) int { return 1 },
			Budgets: func(p *placement.Pod) []string { return []string{p.Name[len(p.Name)-1:]} },
			Allowed: map[string]int{"1": 1, "2": 2, "3": 1, "4": 3, "5": 9, "6": 9},
		})
		if err != nil {
			t.Fatal(err)
		}
		u.mustBe(states, "asking for victims")
		u.want.check(t, u.cluster, []placement.Shape{randomShape(u, 3)})
		if !ok {
			continue
		}
		for _, name := range result.Victims {
			found++
			delete(u.want.pods, name)
			u.cluster.Remove(name)
		}
		(&plans{u, g}).check(result.Plan)
	}
	if found < 60 {
		t.Errorf("only %d victims: this proves little", found)
	}
}
