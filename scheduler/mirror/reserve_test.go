// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// keeping returns the node with reservations.
func keeping(t *testing.T, node *corev1.Node, list ...reservation.Reservation) *corev1.Node {
	t.Helper()
	text, err := reservation.Format(list)
	if err != nil {
		t.Fatal(err)
	}
	node = node.DeepCopy()
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, reservation.Annotation, text)
	return node
}

// moved keeps cards for a Pod that is moved.
func moved(pod string, uuids ...string) reservation.Reservation {
	return reservation.Reservation{
		Plan: "plan", Pod: "default/" + pod, Kind: reservation.Move, GPUs: uuids, CPU: 2000, Memory: 4096, Until: beginning.Add(time.Minute),
	}
}

func with(r reservation.Reservation, change func(*reservation.Reservation)) reservation.Reservation {
	change(&r)
	return r
}

// bare is a node without an agent.
func bare(t *testing.T, name string, gpus int) *corev1.Node {
	t.Helper()
	node := aNode(t, name, cards(name, gpus))
	delete(node.Annotations, inventory.Annotation)
	return node
}

func TestWhatIsReservedIsNotFree(t *testing.T) {
	t.Parallel()
	share := with(moved("x", "a-0"), func(r *reservation.Reservation) { r.Percent = 40 })
	start := with(moved("x", "a-0"), func(r *reservation.Reservation) { r.Kind = reservation.Start })
	counted := with(moved("x"), func(r *reservation.Reservation) { r.Cards = 3 })
	leaving := func(pod *corev1.Pod) *corev1.Pod {
		pod.DeletionTimestamp = new(metav1.NewTime(beginning))
		return pod
	}
	tests := map[string]struct {
		kept []reservation.Reservation
		pods func(t *testing.T) []*corev1.Pod
		bare bool
		want map[string]int
	}{
		"cards":                    {kept: []reservation.Reservation{moved("x", "a-0", "a-2")}, want: map[string]int{"1 GPU": 2, "30 %": 6}},
		"a share":                  {kept: []reservation.Reservation{share}, want: map[string]int{"1 GPU": 3, "60 %": 4}},
		"for two Pods":             {kept: []reservation.Reservation{moved("x", "a-0"), moved("y", "a-1")}, want: map[string]int{"1 GPU": 2}},
		"for one that is to start": {kept: []reservation.Reservation{start}, want: map[string]int{"1 GPU": 3}},
		"CPU": {
			kept: []reservation.Reservation{with(moved("x", "a-0"), func(r *reservation.Reservation) { r.CPU = 20000 })}, want: map[string]int{"1 GPU": 3, "much CPU": 0},
		},
		"its time is over":                {kept: []reservation.Reservation{with(moved("x", "a-0"), func(r *reservation.Reservation) { r.Until = beginning })}, want: map[string]int{"1 GPU": 4}},
		"a card that the node has not":    {kept: []reservation.Reservation{moved("x", "a-0", "gone")}, want: map[string]int{"1 GPU": 3}},
		"a card twice":                    {kept: []reservation.Reservation{moved("x", "a-0", "a-0")}, want: map[string]int{"1 GPU": 3}},
		"cards that have no names":        {kept: []reservation.Reservation{counted}, bare: true, want: map[string]int{"1 GPU": 1}},
		"names of a node without agent":   {kept: []reservation.Reservation{moved("x", "a-0", "a-1")}, bare: true, want: map[string]int{"1 GPU": 2}},
		"more cards than there are":       {kept: []reservation.Reservation{with(counted, func(r *reservation.Reservation) { r.Cards = 7 })}, bare: true, want: map[string]int{"1 GPU": 0}},
		"a share of a card without names": {kept: []reservation.Reservation{with(counted, func(r *reservation.Reservation) { r.Cards, r.Percent = 1, 40 })}, bare: true, want: map[string]int{"1 GPU": 3, "60 %": 4}},
		"cards without names, some used": {
			kept: []reservation.Reservation{counted}, bare: true,
			pods: func(t *testing.T) []*corev1.Pod { t.Helper(); return []*corev1.Pod{on(t, aPod("y", 1, 0), "a")} }, want: map[string]int{"1 GPU": 0},
		},
		"the place is still in use": {
			kept: []reservation.Reservation{moved("x", "a-0")},
			pods: func(t *testing.T) []*corev1.Pod { t.Helper(); return []*corev1.Pod{on(t, aPod("y", 1, 0), "a", "a-0")} }, want: map[string]int{"1 GPU": 3},
		},
		"the Pod is there": {
			kept: []reservation.Reservation{moved("x", "a-0")},
			pods: func(t *testing.T) []*corev1.Pod { t.Helper(); return []*corev1.Pod{on(t, aPod("x", 1, 0), "a", "a-0")} }, want: map[string]int{"1 GPU": 3, "2 GPUs": 1},
		},
		"the Pod is there with other cards, from which it is moved": {
			kept: []reservation.Reservation{moved("x", "a-0")},
			pods: func(t *testing.T) []*corev1.Pod { t.Helper(); return []*corev1.Pod{on(t, aPod("x", 1, 0), "a", "a-1")} }, want: map[string]int{"1 GPU": 2},
		},
		"the Pod has started beside its place": {
			kept: []reservation.Reservation{start},
			pods: func(t *testing.T) []*corev1.Pod { t.Helper(); return []*corev1.Pod{on(t, aPod("x", 1, 0), "a", "a-1")} }, want: map[string]int{"1 GPU": 3},
		},
		"the Pod is there, without assigned cards": {
			kept: []reservation.Reservation{moved("x", "a-0")},
			pods: func(t *testing.T) []*corev1.Pod { t.Helper(); return []*corev1.Pod{on(t, aPod("x", 1, 0), "a")} }, want: map[string]int{"1 GPU": 3},
		},
		"the Pod leaves": {
			kept: []reservation.Reservation{start},
			pods: func(t *testing.T) []*corev1.Pod {
				t.Helper()
				return []*corev1.Pod{leaving(on(t, aPod("x", 1, 0), "a", "a-1"))}
			}, want: map[string]int{"1 GPU": 2},
		},
		"a Pod of that name of another namespace": {
			kept: []reservation.Reservation{with(moved("x", "a-0"), func(r *reservation.Reservation) { r.Pod = "other/x" })},
			pods: func(t *testing.T) []*corev1.Pod { t.Helper(); return []*corev1.Pod{on(t, aPod("x", 1, 0), "a", "a-1")} }, want: map[string]int{"1 GPU": 2},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := aNode(t, "a", cards("a", 4))
			if test.bare {
				node = bare(t, "a", 4)
			}
			// Whatever is seen first, the Pods, the reservations or both at once.
			for _, first := range []string{"Pods", "reservations", "neither", "nothing"} {
				w, m := newWorld(t, node), newMirror(t)
				m.Refresh(w.snapshot())
				if first == "nothing" {
					m = newMirror(t)
				}
				var pods []*corev1.Pod
				if test.pods != nil {
					pods = test.pods(t)
				}
				steps := []func(){func() { w.add(pods...) }, func() { w.set(keeping(t, node, test.kept...)) }}
				if first == "reservations" {
					slices.Reverse(steps)
				}
				for _, step := range steps {
					step()
					if first != "neither" && first != "nothing" {
						m.Refresh(w.snapshot())
					}
				}
				m.Refresh(w.snapshot())
				got := room(m)
				for shape, want := range test.want {
					if got[shape] != want {
						t.Errorf("%s seen first: there is room for %d × %s, want %d", first, got[shape], shape, want)
					}
				}
				w.set(node)
				for _, pod := range pods {
					w.remove(pod)
				}
				m.Refresh(w.snapshot())
				if got := free(m); got != 4 || m.HasReservations() {
					t.Errorf("%s seen first: when all is over %d GPUs are free, reservations %t", first, got, m.HasReservations())
				}
			}
		})
	}
}

func TestCardsThatArePromisedStayKeptWhenTheirUserLeaves(t *testing.T) {
	t.Parallel()
	node := aNode(t, "a", cards("a", 1))
	user := on(t, aPod("y", 1, 0), "a", "a-0")
	w, m := newWorld(t, keeping(t, node, moved("x", "a-0"))), newMirror(t)
	w.add(user)
	m.Refresh(w.snapshot())
	w.remove(user)
	m.Refresh(w.snapshot())
	if got := free(m); got != 0 {
		t.Errorf("%d GPUs are free, want none", got)
	}
	w.set(node)
	m.Refresh(w.snapshot())
	if got := free(m); got != 1 {
		t.Errorf("when the reservation is removed %d GPUs are free, want 1", got)
	}
}

func TestASeatTakesUpAReservation(t *testing.T) {
	t.Parallel()
	for _, node := range []*corev1.Node{
		keeping(t, aNode(t, "a", cards("a", 3)), moved("x", "a-1")),
		keeping(t, bare(t, "a", 3), with(moved("x"), func(r *reservation.Reservation) { r.Cards = 1 })),
	} {
		w, m := newWorld(t, node), newMirror(t)
		m.Refresh(w.snapshot())
		pod := aPod("x", 1, 0)
		var place placement.Place
		m.For(&Requester{Pods: map[string]bool{"default/x": true}}, func(cluster *placement.Cluster) {
			place, _ = cluster.On("a", cluster.Request(placement.Shape{GPUs: 1}))
		})
		m.Hold(pod, place)
		if got := free(m); got != 2 {
			t.Errorf("while the Pod has a seat %d GPUs are free, want 2", got)
		}
		m.Release([]types.UID{pod.UID})
		if got := free(m); got != 2 {
			t.Errorf("when it has given the seat back %d GPUs are free, want 2: they are kept for it again", got)
		}
		m.Hold(pod, place)
		w.add(on(t, pod, "a"))
		m.Refresh(w.snapshot())
		m.Refresh(w.snapshot())
		if got := free(m); got != 2 || m.ReservedGPUs() > 0 {
			t.Errorf("when it is there %d GPUs are free and %v reserved, want 2 and none", got, m.ReservedGPUs())
		}
	}
}

func TestAReservationCountsAgainWhenItsPodGoesElsewhere(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, keeping(t, aNode(t, "a", cards("a", 1)), moved("x", "a-0")), aNode(t, "b", cards("b", 1))), newMirror(t)
	m.Refresh(w.snapshot())
	pod := aPod("x", 1, 0)
	m.Hold(pod, placement.Place{Node: "a", Use: placement.Use{GPUs: []int{0}, Percent: placement.Card}})
	m.Hold(pod, placement.Place{Node: "b", Use: placement.Use{GPUs: []int{0}, Percent: placement.Card}})
	if got := free(m); got != 0 || m.ReservedGPUs() != 1 {
		t.Errorf("%d GPUs are free and %v reserved, want none and 1", got, m.ReservedGPUs())
	}
}

func TestReservationsEndByTheClock(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(beginning)
	m := mirrorAt(t, clock)
	longer := with(moved("y", "a-1"), func(r *reservation.Reservation) { r.Until = beginning.Add(time.Hour) })
	w := newWorld(t, keeping(t, aNode(t, "a", cards("a", 4)), moved("x", "a-0"), longer))
	m.Refresh(w.snapshot())
	version := m.Version()
	if got := free(m); got != 2 || m.Sweep() {
		t.Fatalf("%d GPUs are free", got)
	}
	clock.SetTime(beginning.Add(time.Minute))
	m.Refresh(w.snapshot()) // though no node has changed
	if got := free(m); got != 3 {
		t.Errorf("when one has ended %d GPUs are free, want 3", got)
	}
	if m.Version() == version {
		t.Error("the version is the same")
	}
	if !m.Sweep() || m.Sweep() {
		t.Error("it is not reported once that some have ended")
	}
	clock.SetTime(beginning.Add(time.Hour))
	if !m.Sweep() || m.HasReservations() || free(m) != 4 {
		t.Errorf("in the end %d GPUs are free, reservations %t", free(m), m.HasReservations())
	}
	m.Refresh(w.snapshot())
	if got := free(m); got != 4 {
		t.Errorf("after another look %d GPUs are free, want 4", got)
	}
}

func TestReservationsThatCanNotBeReadKeepNothing(t *testing.T) {
	t.Parallel()
	node := aNode(t, "a", cards("a", 4))
	broken := keeping(t, node, moved("x", "a-0"))
	w, m := newWorld(t, broken), newMirror(t)
	m.Refresh(w.snapshot())
	broken = broken.DeepCopy()
	broken.Annotations[reservation.Annotation] = "{"
	w.set(broken)
	m.Refresh(w.snapshot())
	if got := free(m); got != 4 || m.HasReservations() {
		t.Errorf("%d GPUs are free, reservations %t", got, m.HasReservations())
	}
	w.set(keeping(t, node, moved("x", "a-0")))
	m.Refresh(w.snapshot())
	if got := free(m); got != 3 {
		t.Errorf("when it can be read again %d GPUs are free, want 3", got)
	}
}

func TestReservationsFollowTheirNode(t *testing.T) {
	t.Parallel()
	node := keeping(t, aNode(t, "a", cards("a", 4)), moved("x", "a-0"))
	w, m := newWorld(t, node, aNode(t, "b", cards("b", 1))), newMirror(t)
	m.Refresh(w.snapshot())
	gpus := cards("a", 4)
	slices.Reverse(gpus)
	w.set(withCards(t, node, gpus))
	m.Refresh(w.snapshot())
	to := m.Destinations(map[string]bool{"default/x": true, "default/y": true})
	if diff := cmp.Diff(map[string]Destination{"default/x": {Node: "a", Cards: []int{3}, Until: beginning.Add(time.Minute)}}, to); diff != "" {
		t.Errorf("when the cards have changed places (-want +got):\n%s", diff)
	}
	w.drop("a")
	m.Refresh(w.snapshot())
	if got := free(m); got != 1 || m.HasReservations() {
		t.Errorf("without the node %d GPUs are free, reservations %t", got, m.HasReservations())
	}
	w.set(node)
	m.Refresh(w.snapshot())
	if got := free(m); got != 4 {
		t.Errorf("when it is back %d GPUs are free, want 4", got)
	}
}

func TestWhoseWayAReservationIsIn(t *testing.T) {
	t.Parallel()
	kept := with(moved("x", "a-0", "a-1"), func(r *reservation.Reservation) { r.Priority = 5 })
	w, m := newWorld(t, keeping(t, aNode(t, "a", cards("a", 4)), kept)), newMirror(t)
	m.Refresh(w.snapshot())
	tests := map[string]struct {
		requester Requester
		want      int
	}{
		"others of the same priority": {Requester{Priority: 5}, 2},
		"others of a lower one":       {Requester{Priority: 4}, 2},
		"others of a higher one":      {Requester{Priority: 6}, 4},
		"its own Pod":                 {Requester{Pods: map[string]bool{"default/x": true}}, 4},
		"another Pod":                 {Requester{Pods: map[string]bool{"default/y": true}}, 2},
		"blocked by none":             {Requester{All: true}, 4},
	}
	for name, test := range tests {
		got := 0
		m.For(&test.requester, func(cluster *placement.Cluster) {
			got = cluster.Root().Room(cluster.Request(placement.Shape{GPUs: 1}))
		})
		if got != test.want {
			t.Errorf("for %s %d GPUs are free, want %d", name, got, test.want)
		}
		all := 0
		gpus := m.WithoutReservations(&test.requester, func(cluster *placement.Cluster) {
			all = cluster.Root().Room(cluster.Request(placement.Shape{GPUs: 1}))
		})
		if test.want == 4 && (gpus > 0 || all > 0) || test.want == 2 && (gpus != 2 || all != 4) {
			t.Errorf("from %s %d GPUs are withheld; without that %d are free", name, gpus, all)
		}
		if got := free(m); got != 2 {
			t.Fatalf("asking for %s has changed the cluster: %d GPUs are free", name, got)
		}
	}
	if got := m.ReservedGPUs(); got != 2 {
		t.Errorf("%v GPUs are reserved, want 2", got)
	}
}

func TestWhatIsKeptFromPodsThatAreNotOurs(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, keeping(t, aNode(t, "a", cards("a", 4)), moved("x", "a-0"), moved("y", "a-1")), aNode(t, "b", cards("b", 1))), newMirror(t)
	w.add(on(t, aPod("y", 1, 0), "a", "a-1"))
	m.Refresh(w.snapshot())
	other, own, high := aPod("web", 0, 0), aPod("x", 0, 0), aPod("system", 0, 0)
	high.Spec.Priority = new(int32(1))
	one := Withheld{CPU: 2000, Memory: 4096, Pods: 1}
	for pod, want := range map[*corev1.Pod]Withheld{other: one, own: {}, high: {}} {
		if diff := cmp.Diff(want, reservedOn(m, "a", pod)); diff != "" {
			t.Errorf("from Pod %s (-want +got):\n%s", pod.Name, diff)
		}
	}
	if got := reservedOn(m, "b", other); got.Pods > 0 {
		t.Errorf("on another node: %+v", got)
	}
}

func TestWhereAPodIsMovedTo(t *testing.T) {
	t.Parallel()
	start := with(moved("s", "a-1"), func(r *reservation.Reservation) { r.Kind = reservation.Start })
	later := with(moved("x", "b-0"), func(r *reservation.Reservation) { r.Plan, r.Until = "later", r.Until.Add(time.Second) })
	nameless := with(moved("n"), func(r *reservation.Reservation) { r.Cards = 2 })
	w, m := newWorld(t,
		keeping(t, aNode(t, "a", cards("a", 4)), moved("x", "a-0"), moved("g", "a-2", "gone"), start),
		keeping(t, aNode(t, "b", cards("b", 4)), later), keeping(t, bare(t, "c", 4), nameless),
	), newMirror(t)
	m.Refresh(w.snapshot())
	until := beginning.Add(time.Minute)
	asked := map[string]bool{"default/x": true, "default/g": true, "default/s": true, "default/n": true, "default/other": true}
	want := map[string]Destination{
		"default/x": {Node: "b", Cards: []int{0}, Until: until.Add(time.Second)},
		"default/g": {Node: "a", Cards: []int{2}, Gone: true, Until: until},
		"default/n": {Node: "c", Until: until},
	}
	if diff := cmp.Diff(want, m.Destinations(asked)); diff != "" {
		t.Errorf("destinations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"default/x": true, "default/g": true, "default/n": true}, m.Moving()); diff != "" {
		t.Errorf("on their way (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"a": true, "b": true}, m.NodesFor(map[string]bool{"default/x": true, "default/s": true})); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}
