// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/leadership"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

func older(p *corev1.Pod) { p.CreationTimestamp.Time = beginning.AddDate(0, 0, -1) }

// keptOnA returns what is kept on node a from a Pod that is not ours.
func (f *fixture) keptOnA(pod *corev1.Pod) mirror.Withheld {
	room := f.KeptRoom(pod, f.nodes())
	if room == nil {
		return mirror.Withheld{}
	}
	return room.keptOn(f.infos["a"])
}

func ofADaemonSet(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
}

// The gang needs 50 CPUs. Of those, the Pod that leaves holds 40.
func TestPodsWithoutGPUsLeaveAGangWhatItWillNeed(t *testing.T) {
	t.Parallel()
	before, after, nothing := mirror.Withheld{CPU: 10000}, mirror.Withheld{CPU: 50000}, mirror.Withheld{}
	tests := map[string]struct {
		other         *corev1.Pod
		before, after mirror.Withheld
	}{
		"a younger one":                            {pod("web", 0, prioritized(5), later(1)), before, after},
		"an older one of a lower priority":         {pod("web", 0, prioritized(4), older), before, after},
		"an older one may take it":                 {pod("web", 0, prioritized(5), older), nothing, nothing},
		"one of a higher priority may take it":     {pod("web", 0, prioritized(6), later(1)), nothing, nothing},
		"a younger one of a DaemonSet may take it": {pod("web", 0, prioritized(5), later(1), ofADaemonSet), nothing, nothing},
	}
	for _, reserved := range []bool{true, false} {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f, user := newFixture(t), at(pod("user", 2, cpus("40"), prioritized(1)), "a", 0, 1)
				f.addNode("a", "l", 2)
				f.comes(user)
				big := pod("big", 2, cpus("50"), prioritized(5))
				f.comes(big)
				if f.holdsRoom() {
					t.Error("room is held before anything is kept")
				}
				if reserved {
					f.waitInLine(big)
				} else {
					f.decide(big)
					f.Preempt(t.Context(), big)
				}
				if !f.holdsRoom() {
					t.Error("no room is held for the gang")
				}
				if diff := cmp.Diff(test.before, f.keptOnA(test.other)); diff != "" {
					t.Errorf("while the user runs (-want +got):\n%s", diff)
				}
				f.goes(user)
				want := test.after
				if reserved {
					f.clock.Step(2 * time.Second)
					f.refresh(f.nodes())
					f.line.LookAhead()
				} else if !want.IsZero() {
					want.Pods = 1
				}
				if diff := cmp.Diff(want, f.keptOnA(test.other)); diff != "" {
					t.Errorf("when it has left (-want +got):\n%s", diff)
				}
				if decision := f.decide(big); decision.Node != "a" || !f.keptOnA(test.other).IsZero() {
					t.Errorf("when the gang has its places: %+v, kept are %+v", decision, f.keptOnA(test.other))
				}
			})
		}
	}
}

func TestThoseTurnedAwayAreTriedAgainAlthoughNoPodWithGPUsHasCome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.begins(leadership.Always()) // as in a process that has just started
	f.RequeueLater(pod("web", 0))
	f.maintain(t.Context())
	if got := f.handle.takeActivated(); !cmp.Equal(got, []string{"web"}) {
		t.Errorf("activated are %v, want web", got)
	}
}

func TestThoseTurnedAwayByAReservationAreQueuedWhenItEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	f.comes(at(pod("user", 1), "a", 0))
	big := pod("big", 2)
	f.comes(big)
	f.waitInLine(big)
	f.RequeueLater(pod("web", 0))
	f.handle.takeActivated()
	f.goes(big)
	f.maintain(t.Context())
	if got := f.handle.takeActivated(); !cmp.Equal(got, []string{"web"}) {
		t.Errorf("activated are %v, want web", got)
	}
	if f.holdsRoom() {
		t.Error("the reservation stays")
	}
}

// TestWhatIsKeptOnNodesIsUpToDate compares what is kept on nodes with what is kept for each gang.
func TestWhatIsKeptOnNodesIsUpToDate(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	list, kept := newKeptNodes(), gangRooms{}
	for range 1000 {
		group := fmt.Sprint("gang-", random.IntN(5))
		if random.IntN(3) == 0 {
			list.drop(group)
		} else {
			one := &keptFor{rank: gangs.Rank{Priority: int32(random.IntN(3))}, nodes: map[string]mirror.Withheld{}}
			for range random.IntN(4) {
				one.nodes[fmt.Sprint("node-", random.IntN(4))] = mirror.Withheld{CPU: int64(1 + random.IntN(9)), Pods: 1}
			}
			list.list[group] = one
		}
		rooms := kept.of(list)
		for i := range 4 {
			info := framework.NewNodeInfo()
			info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}})
			for priority := range int32(3) {
				room, want := &KeptRoom{kept: rooms, rank: gangs.Rank{Priority: priority}}, mirror.Withheld{}
				for _, one := range list.list {
					if one.rank.Priority >= priority {
						want = want.Plus(one.nodes[info.Node().Name])
					}
				}
				if diff := cmp.Diff(want, room.keptOn(info)); diff != "" {
					t.Fatalf("kept from a Pod of priority %d on %s (-want +got):\n%s", priority, info.Node().Name, diff)
				}
			}
		}
	}
}
