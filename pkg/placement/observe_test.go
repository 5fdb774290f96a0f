// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// diary notes what an observer is told.
type diary []string

func (d *diary) NodeSet(before, after *placement.Node, _ int) {
	if before == nil {
		*d = append(*d, "new "+after.Name)
		return
	}
	*d = append(*d, "set "+after.Name)
}
func (d *diary) NodeRemoved(node *placement.Node) { *d = append(*d, "gone "+node.Name) }
func (d *diary) PodPlaced(pod *placement.Pod)     { *d = append(*d, "placed "+pod.Name) }
func (d *diary) PodRemoved(pod *placement.Pod)    { *d = append(*d, "removed "+pod.Name) }

func TestAnObserverIsToldWhatChangesAndNotWhatIsTried(t *testing.T) {
	t.Parallel()
	cluster, told := placement.NewCluster(anyPolicy{}), &diary{}
	cluster.Observe(told)
	set := func(name string, cpu int64) {
		if err := cluster.SetNode(placement.Node{Name: name, CPU: cpu, Memory: 1000, Slots: 10}); err != nil {
			t.Fatal(err)
		}
	}
	place := func(name, node string) {
		if err := cluster.Place(placement.Pod{Name: name, Node: node, Use: placement.Use{CPU: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	set("a", 10)
	set("b", 10)
	set("a", 20)
	place("p", "a")
	place("q", "b")
	cluster.Try(func() bool {
		cluster.Remove("p")
		place("tried", "a")
		if changes := cluster.TrialChanges(); len(changes) != 2 || changes[0].Placed || changes[0].Pod.Name != "p" || !changes[1].Placed {
			t.Errorf("the trial has changed %+v", changes)
		}
		return false
	})
	cluster.Try(func() bool {
		cluster.Remove("p")
		place("kept", "b")
		return true
	})
	cluster.Remove("q")
	cluster.RemoveNode("b")
	cluster.Remove("nobody")
	want := diary{"new a", "new b", "set a", "placed p", "placed q", "removed p", "placed kept", "removed q", "removed kept", "gone b"}
	if !slices.Equal(*told, want) {
		t.Errorf("told %q, want %q", *told, want)
	}
	if changes := cluster.TrialChanges(); changes != nil {
		t.Errorf("outside of trials there are %+v", changes)
	}
	cluster.Observe(nil)
	set("c", 1)
	if len(*told) != len(want) {
		t.Error("told after the end")
	}
}

type anyPolicy struct{}

func (anyPolicy) Begin(*placement.Cluster, *placement.Request)           {}
func (anyPolicy) Epoch() uint64                                          { return 0 }
func (anyPolicy) Price(placement.Step) float64                           { return 0 }
func (anyPolicy) Surcharge(*placement.Request, *placement.State) float64 { return 0 }

// Empty describes a node of the same kind, whatever rounding is in between.
func TestTheDescriptionOfAKindIsOfThatKind(t *testing.T) {
	t.Parallel()
	cluster := placement.NewCluster(anyPolicy{})
	gpu := func(memory int64, group int, broken bool) placement.GPU {
		return placement.GPU{Memory: memory, Group: group, NUMA: 1, Broken: broken}
	}
	for name, node := range map[string]placement.Node{
		"without anything":   {},
		"an ordinary one":    {CPU: 1000, Memory: 1 << 20, Slots: 110, Model: "h100", Pool: "a", Traits: "{}", GPUs: []placement.GPU{gpu(1, -1, false), gpu(1, -1, true)}},
		"an uneven amount":   {CPU: 7, Memory: 123456789, Slots: 3, Others: placement.NewAmounts(map[string]int64{"a/b": 987654321, "c/d": 3})},
		"linked GPUs":        {Memory: 5, GPUs: []placement.GPU{gpu(1, 7, false), gpu(2, 7, false), gpu(1, 3, false), gpu(3, -1, false), gpu(1, 3, false)}},
		"closed, with slots": {Slots: 1, Closed: true},
	} {
		node.Name = name
		if err := cluster.SetNode(node); err != nil {
			t.Fatal(err)
		}
		state := cluster.EmptyState(node)
		if again := cluster.EmptyState(state.Empty()); again.Kind() != state.Kind() {
			t.Errorf("%s: the description %+v is of another kind", name, state.Empty())
		}
	}
}

func TestASearchSaysHowManyNodesHadRoom(t *testing.T) {
	t.Parallel()
	cluster := placement.NewCluster(anyPolicy{})
	for i, name := range []string{"a", "b", "c"} {
		if err := cluster.SetNode(placement.Node{Name: name, CPU: 10, Memory: 1, Slots: 10, GPUs: make([]placement.GPU, i)}); err != nil {
			t.Fatal(err)
		}
	}
	gang := &placement.Gang{Roles: []placement.Role{{Shape: placement.Shape{GPUs: 1}, Min: 3, Max: 3}}}
	if _, fits, err := cluster.Plan(gang); err != nil || !fits {
		t.Fatalf("fits: %t, error %v", fits, err)
	}
	if got := cluster.LastSearch(); got != (placement.Search{Nodes: 3, Room: 2}) {
		t.Errorf("the search was %+v", got)
	}
	gang.Roles[0].Min, gang.Roles[0].Max = 9, 9
	if _, fits, err := cluster.Plan(gang); err != nil || fits {
		t.Fatalf("fits: %t, error %v", fits, err)
	}
}
