// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// keeping returns a claim of nodes.
func keeping(until time.Time, starving bool, nodes ...string) *claim {
	one := &claim{nodes: map[string]mirror.Withheld{}, until: until, starving: starving}
	for _, node := range nodes {
		one.nodes[node] = mirror.Withheld{}
	}
	return one
}

// claimed returns the nodes that each gang has claimed, by gang: "big: a b".
func (f *fixture) claimed() []string {
	var list []string
	for group, one := range f.claims.list {
		list = append(list, group+": "+strings.Join(slices.Sorted(maps.Keys(one.nodes)), " "))
	}
	slices.Sort(list)
	return list
}

func (f *fixture) wantClaims(when string, want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.claimed()); diff != "" {
		f.t.Errorf("%s, claims (-want +got):\n%s", when, diff)
	}
}

// starve has Pods tried in vain until they have waited for too long.
func (f *fixture) starve(pods ...*corev1.Pod) {
	f.t.Helper()
	for _, wait := range []time.Duration{2 * time.Minute, 0} {
		for _, one := range pods {
			if decision := f.decide(one); decision.Node != "" {
				f.t.Fatalf("%s fits: %+v", one.Name, decision)
			}
		}
		f.clock.Step(wait)
	}
}

func later(minutes int) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp.Time = beginning.Add(time.Duration(minutes) * time.Minute) }
}

func cpus(count string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(count)
	}
}

func inNamespace(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = name } }

func TestGangsThatStarveClaimDifferentNodesAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	f.addNode("b", "l", 4)
	f.comes(at(pod("x", 1), "a", 0), at(pod("y", 1), "b", 0))
	four, two := pod("four", 4), pod("two", 2, later(1))
	blocker := at(pod("z", 3), "b", 1, 2, 3)
	f.comes(four, two, blocker)
	f.starve(four, two)
	f.wantClaims("when both starve", "four: b", "two: a")
}

func TestAGangThatComesFirstTakesOverTheNodesOfAClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	f.comes(at(pod("x", 1, prioritized(9)), "a", 0))
	usual := pod("usual", 2)
	f.comes(usual)
	f.starve(usual)
	f.wantClaims("at first", "usual: a")
	urgent := pod("urgent", 2, prioritized(5))
	f.comes(urgent)
	f.starve(urgent)
	f.wantClaims("when a more important one starves", "urgent: a")
}

func TestWhoWaitsForNodesThatAClaimLeavesIsWoken(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		claims map[string]*claim // before, by gang: of first, which is ahead, and last
		next   *claim            // of first
		want   bool
	}{
		"it claims nothing yet":              {nil, keeping(beginning.Add(time.Hour), true, "a"), false},
		"it claims the same":                 {map[string]*claim{"first": keeping(beginning.Add(time.Hour), true, "a")}, keeping(beginning.Add(time.Hour), true, "a"), false},
		"it claims more":                     {map[string]*claim{"first": keeping(beginning.Add(time.Hour), true, "a")}, keeping(beginning.Add(time.Hour), true, "a", "b"), false},
		"it claims another node":             {map[string]*claim{"first": keeping(beginning.Add(time.Hour), true, "a")}, keeping(beginning.Add(time.Hour), true, "b"), true},
		"another one loses its claim by it":  {map[string]*claim{"last": keeping(beginning.Add(time.Hour), true, "a", "b")}, keeping(beginning.Add(time.Hour), true, "a"), true},
		"another one claims different nodes": {map[string]*claim{"last": keeping(beginning.Add(time.Hour), true, "b")}, keeping(beginning.Add(time.Hour), true, "a"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("n", "l", 2)
			waits := pod("waits", 2, later(2))
			f.comes(at(pod("runs", 1), "n", 0), pod("first", 2), pod("last", 2, later(1)), waits)
			f.decide(waits)
			for group, one := range test.claims {
				f.claims.set(f.registry.Look(types.UID(group)), one, beginning)
			}
			f.clock.Step(10 * time.Second)
			f.activateDue()
			f.handle.takeActivated()
			f.claim(f.registry.Look("first"), test.next, f.clock.Now())
			f.clock.Step(time.Second)
			f.activateDue()
			if woken := slices.Contains(f.handle.takeActivated(), "waits"); woken != test.want {
				t.Errorf("who waits is woken: %t, want %t", woken, test.want)
			}
		})
	}
}

func TestANamespaceHasNoMoreThanAFewClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var pods []*corev1.Pod
	for i := range maxStarving + 2 {
		f.addNode(fmt.Sprintf("n%d", i), "l", 2)
		f.comes(at(pod(fmt.Sprintf("x%d", i), 1), fmt.Sprintf("n%d", i), 0))
		pods = append(pods, pod(fmt.Sprintf("p%d", i), 2, later(i)))
	}
	other := pod("other", 2, later(100), inNamespace("other"))
	f.comes(append(pods, other)...)
	f.starve(append(pods, other)...)
	if got := len(f.claims.list); got != maxStarving+1 || f.claims.list["other"] == nil {
		t.Errorf("claims are %v, want %d of one namespace and one of another", f.claimed(), maxStarving)
	}
}

func TestAClaimIsRevisedWhenBetterNodesAppear(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	users := map[string]*corev1.Pod{}
	for _, node := range []string{"a", "b"} {
		f.addNode(node, "l", 4)
		for card := range 4 {
			name := fmt.Sprintf("%s-%d", node, card)
			users[name] = at(pod(name, 1), node, card)
			f.comes(users[name])
		}
	}
	f.goes(users["a-0"])
	big := pod("big", 4)
	f.comes(big)
	f.starve(big)
	f.wantClaims("at first", "big: a")
	f.goes(users["b-0"])
	f.clock.Step(revisePeriod)
	f.decide(big)
	f.wantClaims("as long as others are only as good", "big: a")
	f.goes(users["b-1"])
	f.decide(big)
	f.wantClaims("at once", "big: a")
	f.clock.Step(revisePeriod)
	f.decide(big)
	f.wantClaims("when b lacks fewer", "big: b")
}

func TestNodesToClaimAreNotLookedForAllTheTimeIfThereAreNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	user := at(pod("x", 1, cpus("40")), "a", 0)
	idle := at(pod("y", 0, cpus("20")), "a")
	big := pod("big", 2, cpus("50"))
	f.comes(user, idle, big)
	f.starve(big)
	f.wantClaims("while a Pod without GPUs has the CPUs")
	f.goes(idle)
	f.decide(big)
	f.wantClaims("at once")
	f.clock.Step(revisePeriod)
	f.decide(big)
	f.wantClaims("after a while", "big: a")
}

func TestAClaimLastsAsLongAsItProgresses(t *testing.T) {
	t.Parallel()
	for _, progresses := range []bool{true, false} {
		t.Run(fmt.Sprintf("progress %t", progresses), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 4)
			var users []*corev1.Pod
			for card := range 4 {
				users = append(users, at(pod(fmt.Sprintf("x%d", card), 1), "a", card))
			}
			f.comes(users...)
			big := pod("big", 4)
			f.comes(big)
			f.starve(big)
			limit := time.Duration(f.args.ClaimSeconds) * time.Second
			for _, user := range users[:3] {
				f.clock.Step(limit - time.Minute)
				if progresses {
					f.goes(user)
				}
				f.mirror.Refresh(f.nodes())
				f.maintain(t.Context())
			}
			if got := f.claims.list["big"] != nil; got != progresses {
				t.Fatalf("there is a claim: %t, want %t", got, progresses)
			}
			f.clock.Step(limit + time.Second)
			f.maintain(t.Context())
			if f.claims.list["big"] != nil {
				t.Error("the claim stays without progress")
			}
		})
	}
}

// Review point 8: the Pods that hold the GPUs hold the CPUs that the gang needs, too.
func TestAGangThatNeedsTheCPUsOfThoseWhoLeaveClaimsTheirNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	users := map[string][]*corev1.Pod{}
	for _, name := range []string{"a", "b"} {
		f.addNode(name, "l", 8)
		node := f.infos[name].Node()
		node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("128")
		f.infos[name].SetNode(node)
		for card := range 3 {
			users[name] = append(users[name], at(pod(fmt.Sprintf("%s-%d", name, card), 1, cpus("12")), name, card))
		}
		f.comes(users[name]...)
	}
	big := []*corev1.Pod{pod("big-0", 8, cpus("96"), in("big", 1, 0))}
	f.comes(big...)
	f.starve(big...)
	if len(f.claims.list) != 1 {
		t.Fatalf("claims are %v, want one of a node", f.claimed())
	}
	claimed := slices.Collect(maps.Keys(slices.Collect(maps.Values(f.claims.list))[0].nodes))[0]
	late := pod("late", 1, later(10))
	f.comes(late)
	if decision := f.decide(late); decision.Node == "" || decision.Node == claimed {
		t.Errorf("a late small one goes to %q, want the node that is not %s", decision.Node, claimed)
	}
	for _, user := range users[claimed] {
		f.goes(user)
	}
	if decision := f.decide(big[0]); decision.Node != claimed {
		t.Errorf("when the others have left: %+v, want node %s", decision, claimed)
	}
}

// Node n0 would lack fewer GPUs, but the volume is in the zone of n1.
func TestClaimsAreOfNodesThatTheFiltersAccept(t *testing.T) {
	nodes, running := make([]*corev1.Node, 2), []*corev1.Pod(nil)
	for i, zone := range []string{"x", "y"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{zoneLabel: zone}}}
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"),
			corev1.ResourcePods: resource.MustParse("10"), v1.ResourceGPU: resource.MustParse("2"),
		}
		nodes[i] = node
		for card := range i + 1 {
			running = append(running, at(pod(fmt.Sprintf("r%d%d", i, card), 1), node.Name))
		}
	}
	volume, bound := volumeIn("y")
	f := newFramed(t, nodes, running, volume, bound)
	big := pod("big", 2)
	big.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "y"},
	}}}
	f.comes(big)
	f.starve(big)
	f.wantClaims("when it starves", "big: n1")
}

// TestNoNodeIsKeptForAGPUOfAResourceClaim: on node a fewer GPUs are in use, but nobody knows
// whether the one of a resource claim will ever be free.
func TestNoNodeIsKeptForAGPUOfAResourceClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	f.addNode("b", "l", 4)
	for card := range 4 {
		f.comes(at(pod(fmt.Sprint("p", card), 1), "b", card))
	}
	f.mirror.SetDevices(map[string][]string{"a": {"a-0"}}, nil)
	big := pod("big", 4)
	f.comes(big)
	f.starve(big)
	f.wantClaims("when it starves", "big: b")
}

// A gang that has starved in vain may not claim nodes for a while. Pods that it preempts meanwhile leave for it all the same.
func TestAPreemptionKeepsItsNodesAlthoughAClaimHasJustExpired(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	equal := at(pod("equal", 4, prioritized(5)), "a", 0, 1, 2, 3)
	big := pod("big", 4, prioritized(5))
	f.comes(equal, big)
	f.starve(big)
	f.wantClaims("when it starves", "big: a")
	f.clock.Step(time.Duration(f.args.ClaimSeconds)*time.Second + time.Second)
	f.maintain(t.Context())
	f.wantClaims("without progress")
	f.goes(equal)
	low := []*corev1.Pod{at(pod("low-0", 2, prioritized(1)), "a", 0, 1), at(pod("low-1", 2, prioritized(1)), "a", 2, 3)}
	f.comes(low...)
	f.decide(big)
	if got := f.Preempt(t.Context(), big); got != "2 Pods of a lower priority are preempted" {
		t.Fatalf("the message is %q", got)
	}
	f.wantClaims("when others are preempted", "big: a")
	f.goes(low[0])
	small := pod("small", 1, prioritized(1), later(30))
	f.comes(small)
	if decision := f.decide(small); decision.Node != "" {
		t.Errorf("what was vacated for the gang goes to a Pod of a lower priority: %+v", decision)
	}
}

func grace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// Of two victims, one leaves at once, and the other one only at the end of its grace period, or never.
func TestNodesAreKeptAsLongAsVictimsHaveTimeToLeave(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int64]time.Duration{30: 30 * time.Second, 1800: 30 * time.Minute, 1 << 40: time.Hour} {
		t.Run(fmt.Sprint(seconds), func(t *testing.T) {
			t.Parallel()
			quick, slow := at(pod("quick", 1, prioritized(1)), "a", 0), at(pod("slow", 1, prioritized(1), grace(seconds)), "a", 1)
			big := pod("big", 2, prioritized(5))
			f := newFixture(t, quick, slow)
			f.addNode("a", "l", 2)
			f.comes(quick, slow, big)
			f.decide(big)
			if got := f.Preempt(t.Context(), big); got != "2 Pods of a lower priority are preempted" {
				t.Fatalf("the message is %q", got)
			}
			<-f.ended("big")
			f.goes(quick)
			deadline := f.clock.Now().Add(want + time.Duration(f.args.ClaimSeconds)*time.Second)
			for ; f.clock.Now().Before(deadline); f.clock.Step(time.Minute) {
				f.maintain(t.Context())
				f.decide(big)
				f.Preempt(t.Context(), big)
				f.wantClaims("while the second one has time", "big: a")
			}
			f.clock.Step(time.Minute)
			f.maintain(t.Context())
			f.wantClaims("later")
			f.decide(big)
			f.Preempt(t.Context(), big)
			f.wantClaims("in the pause that follows")
		})
	}
}

func TestAClaimLastsAsLongAsThoseWhoLeaveHaveTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	leaves := at(pod("leaves", 1, prioritized(1)), "a", 0)
	end, period := metav1.NewTime(beginning.Add(40*time.Minute)), int64(2400)
	leaves.DeletionTimestamp, leaves.DeletionGracePeriodSeconds = &end, &period
	waits := pod("waits", 1, prioritized(5))
	f.comes(leaves, waits)
	f.decide(waits)
	f.Preempt(t.Context(), waits)
	if got, want := f.claims.list["waits"].until, end.Add(time.Duration(f.args.ClaimSeconds)*time.Second); !got.Equal(want) {
		t.Errorf("its node is kept until %v, want %v", got, want)
	}
}

// Without reservations in time, only the claim keeps what a queue has to give back from the queue's next Pod.
func TestWhoHadToGiveBackGPUsDoesNotTakeThemAgainByItsPriority(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.args.Reservations = 0
	f.addNode("a", "l", 8)
	f.withQueues(queue("owner", 4, nil), queue("guest", 4, nil))
	high := prioritized(9)
	borrows := at(pod("borrows", 4, inQueue("guest"), high), "a", 0, 1, 2, 3)
	waits := pod("waits", 4, inQueue("owner"))
	f.comes(borrows, at(pod("other", 4, inQueue("guest"), high, since(beginning.Add(-time.Hour))), "a", 4, 5, 6, 7), waits)
	f.decide(waits)
	if got := f.Preempt(t.Context(), waits); !strings.Contains(got, "taken back from 1 Pod") {
		t.Fatalf("the message is %q", got)
	}
	f.wantClaims("when they are taken back", "waits: a")
	f.goes(borrows)
	again, urgent := pod("again", 4, inQueue("guest"), high), pod("urgent", 4, inQueue("owner"), high)
	f.comes(again, urgent)
	f.line.Order()
	if decision := f.decide(again); decision.Node != "" {
		t.Errorf("the queue that gave them back has them again: %+v", decision)
	}
	if decision := f.decide(urgent); decision.Node != "a" {
		t.Errorf("a more important Pod of the same queue does not get them: %+v", decision)
	}
}

// A gang is deleted and created again under its name before anything else happens.
func TestAGangDoesNotInheritTheClaimOfAnEarlierOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 4)
	f.comes(at(pod("runs", 2), "a", 0, 1))
	earlier := gang("big", 4, 4, prioritized(5))
	f.comes(earlier...)
	f.starve(earlier[0])
	f.wantClaims("when it starves", "default/big: a")
	for _, one := range earlier {
		f.goes(one)
	}
	later := gang("big", 4, 4, func(p *corev1.Pod) { p.UID = types.UID("later-" + p.Name) })
	f.comes(later...)
	f.wantClaims("when it was created again")
}
