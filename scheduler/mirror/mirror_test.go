// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// free is how many whole GPUs are free.
func free(m *Mirror) int { return room(m)["1 GPU"] }

func TestRoomFollowsTheSnapshot(t *testing.T) {
	t.Parallel()
	one := func(t *testing.T) *corev1.Pod { t.Helper(); return on(t, aPod("one", 1, 0), "a", "a-1") }
	tests := map[string]struct {
		change func(t *testing.T, w *world)
		want   int
	}{
		"nothing runs":                 {func(*testing.T, *world) {}, 4},
		"a Pod has a card":             {func(t *testing.T, w *world) { t.Helper(); w.add(one(t)) }, 3},
		"a Pod has a share of a card":  {func(t *testing.T, w *world) { t.Helper(); w.add(on(t, aPod("part", 0, 30), "a", "a-0")) }, 3},
		"a Pod without assigned cards": {func(t *testing.T, w *world) { t.Helper(); w.add(on(t, aPod("two", 2, 0), "a")) }, 2},
		"a Pod without GPUs":           {func(t *testing.T, w *world) { t.Helper(); w.add(on(t, aPod("web", 0, 0), "a")) }, 4},
		"a Pod claims more cards than it asks for": {
			func(t *testing.T, w *world) {
				t.Helper()
				w.add(on(t, aPod("one", 1, 0), "a", "a-0", "a-1", "a-2", "a-3"))
			}, 3,
		},
		"a Pod begins to claim more cards than it asks for": {
			func(t *testing.T, w *world) {
				t.Helper()
				w.add(one(t))
				w.change(one(t), on(t, one(t), "a", "a-0", "a-1", "a-2", "a-3"))
			}, 3,
		},
		"a known card is not guessed for another Pod": {
			func(t *testing.T, w *world) {
				t.Helper()
				w.add(on(t, aPod("guess", 1, 0), "a"), on(t, aPod("zero", 1, 0), "a", "a-0"), one(t))
			}, 1,
		},
		"a Pod has gone": {func(t *testing.T, w *world) { t.Helper(); w.add(one(t)); w.remove(one(t)) }, 4},
		"a card is broken": {
			func(t *testing.T, w *world) {
				t.Helper()
				gpus := cards("a", 4)
				gpus[2].Health = inventory.Unhealthy
				w.set(aNode(t, "a", gpus))
			}, 3,
		},
		"the node is cordoned": {
			func(t *testing.T, w *world) {
				t.Helper()
				node := aNode(t, "a", cards("a", 4))
				node.Spec.Unschedulable = true
				w.set(node)
			}, 0,
		},
		"the inventory can't be read": {
			func(t *testing.T, w *world) {
				t.Helper()
				node := aNode(t, "a", nil)
				node.Annotations[inventory.Annotation] = "{"
				w.set(node)
			}, 0,
		},
		"another node comes": {func(t *testing.T, w *world) { t.Helper(); w.set(aNode(t, "b", cards("b", 2))) }, 6},
		"the node goes":      {func(t *testing.T, w *world) { t.Helper(); w.add(one(t)); w.drop("a") }, 0},
		"the node comes back": {
			func(t *testing.T, w *world) {
				t.Helper()
				w.drop("a")
				w.set(aNode(t, "a", cards("a", 4)))
				w.add(one(t))
			}, 3,
		},
		"the Pod's cards are corrected": {
			func(t *testing.T, w *world) {
				t.Helper()
				two := on(t, aPod("two", 1, 0), "a", "a-1")
				w.add(one(t), two)
				w.change(two, on(t, two, "a", "a-3"))
			}, 2,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Seen at once, or in steps: it makes no difference.
			for _, before := range []bool{false, true} {
				w, m := newWorld(t, aNode(t, "a", cards("a", 4))), newMirror(t)
				if before {
					m.Refresh(w.snapshot())
				}
				test.change(t, w)
				m.Refresh(w.snapshot())
				if got := free(m); got != test.want {
					t.Errorf("seen before %t: %d GPUs are free, want %d", before, got, test.want)
				}
			}
		})
	}
}

func TestOnlyNodesOfItsPoolsAreUsed(t *testing.T) {
	t.Parallel()
	blue, red := aNode(t, "a", cards("a", 4)), aNode(t, "b", cards("b", 2))
	blue.Labels[v1.LabelNodePool], red.Labels[v1.LabelNodePool] = "blue", "red"
	w, m := newWorld(t, blue, red), newMirror(t, "blue")
	w.add(on(t, aPod("one", 1, 0), "a", "a-0"))
	m.Refresh(w.snapshot())
	if got := free(m); got != 3 {
		t.Errorf("%d GPUs are free, want 3", got)
	}
	moved := blue.DeepCopy()
	moved.Labels[v1.LabelNodePool] = "red"
	w.set(moved)
	m.Refresh(w.snapshot())
	if got := free(m); got != 0 {
		t.Errorf("when the node has left the pool %d GPUs are free, want none", got)
	}
	w.set(blue)
	m.Refresh(w.snapshot())
	if got := free(m); got != 3 {
		t.Errorf("when the node is back %d GPUs are free, want 3", got)
	}
}

// The indices by which the engine knows cards are places in the inventory.
func TestCardsKeepTheirHoldersWhenTheInventoryChanges(t *testing.T) {
	t.Parallel()
	all := cards("a", 4)
	lost := slices.Concat(all[:1], all[2:])
	swapped := []inventory.GPU{all[1], all[0], all[2], all[3]}
	broken := slices.Clone(all)
	broken[1].Health = inventory.Unhealthy
	tests := map[string]struct {
		// inventories are seen one after the other.
		inventories [][]inventory.GPU
		// holder is the card that the Pod has.
		holder string
		want   []string
	}{
		"cards change places":       {[][]inventory.GPU{all, swapped}, "a-0", []string{"a-1", "a-2", "a-3"}},
		"a card before it has gone": {[][]inventory.GPU{all, lost}, "a-2", []string{"a-0", "a-3"}},
		"its card has gone":         {[][]inventory.GPU{all, lost}, "a-1", []string{"a-0", "a-2", "a-3"}},
		"its card is back":          {[][]inventory.GPU{all, lost, all}, "a-1", []string{"a-0", "a-2", "a-3"}},
		"its card is broken":        {[][]inventory.GPU{all, broken}, "a-1", []string{"a-0", "a-2", "a-3"}},
		"all were away":             {[][]inventory.GPU{all, nil, all}, "a-1", []string{"a-0", "a-2", "a-3"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, first := range []bool{true, false} { // the last one: as after a restart
				w, m := newWorld(t, aNode(t, "a", test.inventories[0])), newMirror(t)
				w.add(on(t, aPod("one", 1, 0), "a", test.holder))
				for i, gpus := range test.inventories {
					w.set(withCards(t, w.infos["a"].Node(), gpus))
					if first || i == len(test.inventories)-1 {
						m.Refresh(w.snapshot())
					}
				}
				if diff := cmp.Diff(test.want, freeCards(t, m, w)); diff != "" {
					t.Errorf("seen from the beginning %t: free cards (-want +got):\n%s", first, diff)
				}
			}
		})
	}
}

// freeCards returns the names of the whole cards of node a that are free.
func freeCards(t *testing.T, m *Mirror, w *world) []string {
	t.Helper()
	listed, err := inventory.Parse(w.infos["a"].Node().Annotations[inventory.Annotation])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	m.With(func(cluster *placement.Cluster) {
		cluster.Try(func() bool {
			for i := range 64 {
				place, found := cluster.On("a", cluster.Request(placement.Shape{GPUs: 1}))
				if !found {
					break
				}
				names = append(names, listed.GPUs[place.GPUs[0]].UUID)
				if err := cluster.Place(placement.Pod{Name: string(rune('A' + i)), Node: "a", Use: place.Use}); err != nil {
					t.Fatal(err)
				}
			}
			return false
		})
	})
	slices.Sort(names)
	return names
}

func TestASeatIsHeldUntilTheSnapshotShowsThePod(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, aNode(t, "a", cards("a", 4))), newMirror(t)
	m.Refresh(w.snapshot())
	pod := aPod("one", 2, 0)
	hold(t, m, pod, "a")
	if got := free(m); got != 2 {
		t.Errorf("with a seat %d GPUs are free, want 2", got)
	}
	if diff := cmp.Diff(Withheld{CPU: 2000, Memory: 4096, Pods: 1}, seatedOn(m, "a")); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	text, err := m.Assignment(pod)
	if err != nil || text == "" {
		t.Fatalf("assignment %q, error %v", text, err)
	}
	assumed := on(t, pod, "a")
	w.add(assumed)
	m.Refresh(w.snapshot())
	if got := free(m); got != 2 {
		t.Errorf("when it is assumed %d GPUs are free, want 2", got)
	}
	if m.HasSeats() {
		t.Errorf("when it is assumed this is withheld as well: %+v", seatedOn(m, "a"))
	}
	if again, err := m.Assignment(pod); err != nil || again != text {
		t.Errorf("assignment %q, error %v, want %q", again, err, text)
	}
	bound := assumed.DeepCopy()
	bound.Annotations = map[string]string{inventory.AssignmentAnnotation: text}
	w.change(assumed, bound)
	m.Refresh(w.snapshot())
	if got := free(m); got != 2 || !m.Intact("one") {
		t.Errorf("when it is bound %d GPUs are free, intact %t", got, m.Intact("one"))
	}
	w.remove(bound)
	m.Refresh(w.snapshot())
	if got := free(m); got != 4 || len(m.pods) > 0 {
		t.Errorf("when it has gone %d GPUs are free, %d Pods are remembered", got, len(m.pods))
	}
}

func TestASeatIsGivenBack(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, w *world, m *Mirror, pod *corev1.Pod){
		"before the Pod was assumed": func(_ *testing.T, _ *world, m *Mirror, pod *corev1.Pod) {
			m.Release([]types.UID{pod.UID})
		},
		"after it was assumed, before the snapshot showed that": func(t *testing.T, w *world, m *Mirror, pod *corev1.Pod) {
			t.Helper()
			w.add(on(t, pod, "a"))
			m.Release([]types.UID{pod.UID})
			m.Refresh(w.snapshot()) // the cache has not forgotten it yet
			w.remove(on(t, pod, "a"))
		},
		"after the snapshot showed it": func(t *testing.T, w *world, m *Mirror, pod *corev1.Pod) {
			t.Helper()
			w.add(on(t, pod, "a"))
			m.Refresh(w.snapshot())
			m.Release([]types.UID{pod.UID})
			w.remove(on(t, pod, "a"))
		},
		"after the cache has forgotten it": func(t *testing.T, w *world, m *Mirror, pod *corev1.Pod) {
			t.Helper()
			w.add(on(t, pod, "a"))
			m.Refresh(w.snapshot())
			w.remove(on(t, pod, "a"))
			m.Refresh(w.snapshot())
			m.Release([]types.UID{pod.UID})
		},
		"after its node has gone": func(_ *testing.T, w *world, m *Mirror, pod *corev1.Pod) {
			node := w.infos["a"].Node()
			w.drop("a")
			m.Refresh(w.snapshot())
			m.Release([]types.UID{pod.UID})
			w.set(node)
		},
		"twice": func(_ *testing.T, _ *world, m *Mirror, pod *corev1.Pod) {
			m.Release([]types.UID{pod.UID, pod.UID})
			m.Release([]types.UID{pod.UID})
		},
	}
	for name, release := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := newWorld(t, aNode(t, "a", cards("a", 4))), newMirror(t)
			m.Refresh(w.snapshot())
			pod := aPod("one", 2, 0)
			hold(t, m, pod, "a")
			release(t, w, m, pod)
			m.Refresh(w.snapshot())
			if got := free(m); got != 4 {
				t.Errorf("%d GPUs are free, want 4", got)
			}
			if m.HasSeats() || len(m.pods) > 0 || m.Intact(pod.UID) {
				t.Errorf("left: seats %t, %d Pods, intact %t", m.HasSeats(), len(m.pods), m.Intact(pod.UID))
			}
		})
	}
}

// While the Pod of a plan that was given up is still in the snapshot, the next plan
// may seat it elsewhere, or on the same node.
func TestANewSeatCountsWhileTheSnapshotShowsTheFormerOne(t *testing.T) {
	t.Parallel()
	for _, node := range []string{"a", "b"} {
		t.Run("on node "+node, func(t *testing.T) {
			t.Parallel()
			w, m := newWorld(t, aNode(t, "a", cards("a", 4)), aNode(t, "b", cards("b", 4))), newMirror(t)
			m.Refresh(w.snapshot())
			pod := aPod("one", 2, 0)
			hold(t, m, pod, "a")
			w.add(on(t, pod, "a"))
			m.Refresh(w.snapshot())
			m.Release([]types.UID{"one"})
			taken := hold(t, m, pod, node).GPUs
			other := slices.IndexFunc([]int{0, 1, 2, 3}, func(card int) bool { return !slices.Contains(taken, card) })
			w.add(on(t, aPod("other", 1, 0), "a", fmt.Sprint("a-", other))) // the node changes, so it is looked at
			m.Refresh(w.snapshot())
			w.remove(on(t, pod, "a"))
			m.Refresh(w.snapshot())
			if !m.Intact("one") {
				t.Error("the seat is lost")
			}
			if got := free(m); got != 5 {
				t.Errorf("%d GPUs are free, want 5", got)
			}
			w.add(on(t, pod, node))
			m.Refresh(w.snapshot())
			if got := free(m); got != 5 || m.HasSeats() {
				t.Errorf("when it is assumed again %d GPUs are free, seats %t", got, m.HasSeats())
			}
		})
	}
}

func TestAPlaceIsGoodAsLongAsTheNodeIs(t *testing.T) {
	t.Parallel()
	gpus := cards("a", 2)
	tests := map[string]struct {
		change func(t *testing.T, w *world)
		want   bool
	}{
		"nothing happens": {func(*testing.T, *world) {}, true},
		"another label":   {func(t *testing.T, w *world) { t.Helper(); n := aNode(t, "a", gpus); n.Labels["x"] = "y"; w.set(n) }, true},
		"the node is closed": {func(t *testing.T, w *world) {
			t.Helper()
			n := aNode(t, "a", gpus)
			n.Spec.Unschedulable = true
			w.set(n)
		}, false},
		"the node goes":      {func(_ *testing.T, w *world) { w.drop("a") }, false},
		"the node came back": {func(t *testing.T, w *world) { t.Helper(); w.drop("a"); w.set(aNode(t, "a", gpus)) }, true},
		"a card breaks": {func(t *testing.T, w *world) {
			t.Helper()
			bad := cards("a", 2)
			bad[0].Health = inventory.Unhealthy
			w.set(aNode(t, "a", bad))
		}, false},
		"a card has gone":     {func(t *testing.T, w *world) { t.Helper(); w.set(aNode(t, "a", gpus[:1])) }, false},
		"all cards have gone": {func(t *testing.T, w *world) { t.Helper(); w.set(aNode(t, "a", nil)) }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := newWorld(t, aNode(t, "a", gpus), aNode(t, "b", gpus)), newMirror(t)
			m.Refresh(w.snapshot())
			pod := aPod("one", 2, 0)
			hold(t, m, pod, "a")
			test.change(t, w)
			m.Refresh(w.snapshot())
			if got := m.Intact("one"); got != test.want {
				t.Errorf("intact %t, want %t", got, test.want)
			}
			if text, err := m.Assignment(pod); !test.want && err == nil && name != "the node is closed" && name != "a card breaks" {
				t.Errorf("it would be bound with cards %q", text)
			}
		})
	}
}

func TestTheCardsOfAPodThatNobodySeatedAreNotGivenToIt(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, aNode(t, "a", cards("a", 2))), newMirror(t)
	w.add(on(t, aPod("one", 1, 0), "a"))
	m.Refresh(w.snapshot())
	if text, err := m.Assignment(aPod("one", 1, 0)); err == nil {
		t.Errorf("it would be bound with the cards of a guess: %q", text)
	}
	if m.Intact("one") {
		t.Error("a guess is as good as a seat")
	}
}

func TestDomainOf(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, aNode(t, "a1", cards("a1", 2)), aNode(t, "a2", cards("a2", 2)), aNode(t, "b1", cards("b1", 2))), newMirror(t)
	w.add(on(t, aPod("first", 1, 0), "a1", "a1-0"), on(t, aPod("second", 1, 0), "a2", "a2-0"), on(t, aPod("third", 1, 0), "b1", "b1-0"))
	for i, name := range []string{"c1", "d1"} {
		node := aNode(t, name, cards(name, 2))
		node.Labels[corev1.LabelTopologyZone] = "zone"
		w.set(node)
		w.add(on(t, aPod([]string{"fourth", "fifth"}[i], 1, 0), name, name+"-0"))
	}
	m.Refresh(w.snapshot())
	tests := map[string]struct {
		pods  []types.UID
		level int
		want  string
	}{
		"no Pods":                {nil, 3, ""},
		"one Pod":                {[]types.UID{"first"}, 3, "-/-/leaf-a"},
		"two in a leaf":          {[]types.UID{"first", "second"}, 3, "-/-/leaf-a"},
		"two in different ones":  {[]types.UID{"first", "third"}, 3, ""},
		"two in an unknown zone": {[]types.UID{"first", "third"}, 1, ""},
		"two in one zone":        {[]types.UID{"fourth", "fifth"}, 1, "zone"},
		"unknown Pods too":       {[]types.UID{"first", "unknown"}, 3, "-/-/leaf-a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := m.DomainOf(test.pods, test.level); got != test.want {
				t.Errorf("domain %q, want %q", got, test.want)
			}
		})
	}
}

// holders returns the names of the Pods that hold any of some cards of a node, for use within With.
func (m *Mirror) holders(name string, cards []int) []string {
	var names []string
	for uid, e := range m.nodes[name].pods {
		if slices.ContainsFunc(e.use.GPUs, func(card int) bool { return slices.Contains(cards, card) }) {
			names = append(names, string(uid))
		}
	}
	slices.Sort(names)
	return names
}

func TestPodsHoldTheCardsThatTheyWereAssigned(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, aNode(t, "a", cards("a", 4))), newMirror(t)
	w.add(on(t, aPod("two", 2, 0), "a", "a-0", "a-1"), on(t, aPod("part", 0, 20), "a", "a-2"), on(t, aPod("more", 0, 20), "a", "a-2"), on(t, aPod("web", 0, 0), "a"))
	m.Refresh(w.snapshot())
	for _, test := range []struct {
		cards []int
		want  []string
	}{{[]int{0}, []string{"two"}}, {[]int{1, 2}, []string{"more", "part", "two"}}, {[]int{3}, nil}} {
		var got []string
		m.With(func(*placement.Cluster) { got = m.holders("a", test.cards) })
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("cards %v (-want +got):\n%s", test.cards, diff)
		}
	}
}

// TestASeatedPodKeepsItsCardsWhileItsNodeIsAway: its Binding may be in flight with the
// names of the cards when the node is deleted and comes back.
func TestASeatedPodKeepsItsCardsWhileItsNodeIsAway(t *testing.T) {
	t.Parallel()
	reordered := cards("a", 3)
	slices.Reverse(reordered)
	tests := map[string]struct {
		back []inventory.GPU
		// meanwhile happens while the node is away.
		meanwhile func(m *Mirror)
		// others are the cards that two other Pods get then.
		others []string
	}{
		"the node is as it was":        {cards("a", 3), func(*Mirror) {}, []string{"a-0", "a-1"}},
		"its cards have another order": {reordered, func(*Mirror) {}, []string{"a-0", "a-1"}},
		"the place was given back":     {cards("a", 3), func(m *Mirror) { m.Release([]types.UID{"late"}) }, []string{"a-1", "a-2"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, aNode(t, "a", cards("a", 3)))
			before := []*corev1.Pod{on(t, aPod("zero", 1, 0), "a", "a-0"), on(t, aPod("one", 1, 0), "a", "a-1")}
			w.add(before...)
			m, late := newMirror(t), aPod("late", 1, 0)
			m.Refresh(w.snapshot())
			if place := hold(t, m, late, "a"); !slices.Equal(place.GPUs, []int{2}) {
				t.Fatalf("the Pod got the cards %v, want the last one", place.GPUs)
			}
			for _, pod := range before {
				w.remove(pod) // a guess would be card 0 from now on
			}
			w.add(on(t, late, "a")) // assumed: without the annotation
			info := w.infos["a"]
			w.drop("a")
			m.Refresh(w.snapshot())
			test.meanwhile(m)
			info.SetNode(aNode(t, "a", test.back))
			w.infos["a"], w.names = info, []string{"a"}
			m.Refresh(w.snapshot())
			place, fits := placeFor(t, m, aPod("two", 2, 0), "a")
			if !fits {
				t.Fatal("two Pods have no room")
			}
			var got []string
			for _, index := range place.GPUs {
				got = append(got, test.back[index].UUID)
			}
			slices.Sort(got)
			if !slices.Equal(got, test.others) {
				t.Errorf("two others get %v, want %v", got, test.others)
			}
		})
	}
}
