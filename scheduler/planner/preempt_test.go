// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// budget protects Pods with label app=name.
func (f *fixture) budget(name string, allowed int32) {
	f.t.Helper()
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	pdb.Status.DisruptionsAllowed = allowed
	if err := f.handle.informers.Policy().V1().PodDisruptionBudgets().Informer().GetStore().Add(pdb); err != nil {
		f.t.Fatal(err)
	}
	budgets := f.handle.client.PolicyV1().PodDisruptionBudgets(pdb.Namespace)
	if _, err := budgets.Create(f.t.Context(), pdb, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		_, err = budgets.Update(f.t.Context(), pdb, metav1.UpdateOptions{})
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

func app(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels["app"] = name }
}

func leavingNow(p *corev1.Pod) {
	now := metav1.NewTime(beginning)
	p.DeletionTimestamp = &now
}

// wantVictims returns which Pods have to leave for a Pod, and whether the gang fits then.
func (f *fixture) wantVictims(preemptor *corev1.Pod) (names []string, fits bool) {
	f.t.Helper()
	f.mirror.Refresh(f.nodes())
	attempt := f.registry.Attempt(preemptor.UID)
	if attempt == nil {
		f.t.Fatal("there is nothing to plan")
	}
	gang, err := f.requestOf(attempt)
	if err != nil {
		f.t.Fatal(err)
	}
	found := f.victimFinder.find(&search{attempt: attempt, request: gang}, f.victimFinder.reclaimFor(attempt, f.victimFinder.prospectOf(attempt, gang)))
	for _, victim := range found.victims {
		names = append(names, victim.Name)
	}
	slices.Sort(names)
	return names, found.plan != nil
}

func TestWhoHasToLeaveForAGang(t *testing.T) {
	t.Parallel()
	low, high := prioritized(1), prioritized(9)
	two := gang("train", 2, 2, prioritized(5))
	tests := map[string]struct {
		// node a has three GPUs, node b one.
		running []*corev1.Pod
		budgets map[string]int32
		waiting []*corev1.Pod
		want    []string
		fits    bool
	}{
		"one lower Pod for each member that lacks a place": {
			running: []*corev1.Pod{at(pod("x", 1, low), "a", 0), at(pod("y", 1, low), "a", 1), at(pod("z", 1, low), "b", 0)},
			waiting: two, want: []string{"x"}, fits: true,
		},
		"none, if it would not fit even then": {
			running: []*corev1.Pod{at(pod("x", 3, high), "a", 0, 1, 2), at(pod("y", 1, low), "b", 0)}, waiting: two,
		},
		"none of the same priority": {
			running: []*corev1.Pod{at(pod("x", 3, prioritized(5)), "a", 0, 1, 2), at(pod("y", 1, prioritized(5)), "b", 0)}, waiting: two,
		},
		"the lower ones first": {
			running: []*corev1.Pod{at(pod("x", 2, prioritized(3)), "a", 0, 1), at(pod("y", 1, high), "a", 2), at(pod("z", 1, low), "b", 0)},
			waiting: []*corev1.Pod{pod("one", 1, prioritized(5))}, want: []string{"z"}, fits: true,
		},
		"a gang leaves whole": {
			running: []*corev1.Pod{
				at(pod("g-0", 1, in("g", 2, 0), low), "a", 0), at(pod("g-1", 1, in("g", 2, 1), low), "b", 0), at(pod("x", 2, high), "a", 1, 2),
			},
			waiting: []*corev1.Pod{pod("one", 1, prioritized(5))}, want: []string{"g-0", "g-1"}, fits: true,
		},
		"one above a gang's minimum leaves alone": {
			running: []*corev1.Pod{
				at(pod("g-0", 1, in("g", 1, 0), low), "a", 0), at(pod("g-1", 1, in("g", 1, 1), low), "a", 1), at(pod("x", 1, high), "a", 2), at(pod("y", 1, high), "b", 0),
			},
			waiting: []*corev1.Pod{pod("one", 1, prioritized(5))}, want: []string{"g-1"}, fits: true,
		},
		"a gang of which one is higher stays": {
			running: []*corev1.Pod{
				at(pod("g-0", 1, in("g", 2, 0), low), "b", 0), at(pod("g-1", 3, in("g", 2, 1), high), "a", 0, 1, 2),
			},
			waiting: []*corev1.Pod{pod("one", 1, prioritized(5))},
		},
		"none whose budget is spent": {
			running: []*corev1.Pod{at(pod("x", 3, low, app("web")), "a", 0, 1, 2), at(pod("y", 1, high), "b", 0)},
			budgets: map[string]int32{"web": 0}, waiting: []*corev1.Pod{pod("one", 1, prioritized(5))},
		},
		"another one, whose budget is not spent": {
			running: []*corev1.Pod{at(pod("x", 3, low, app("web")), "a", 0, 1, 2), at(pod("y", 1, prioritized(4), app("db")), "b", 0)},
			budgets: map[string]int32{"web": 0, "db": 1}, waiting: []*corev1.Pod{pod("one", 1, prioritized(5))}, want: []string{"y"}, fits: true,
		},
		"not more than a budget allows": {
			running: []*corev1.Pod{at(pod("x", 3, low, app("web")), "a", 0, 1, 2), at(pod("y", 1, low, app("web")), "b", 0)},
			budgets: map[string]int32{"web": 1}, waiting: gang("train", 4, 4, prioritized(5)),
		},
		"no more, if enough leave already": {
			running: []*corev1.Pod{at(pod("x", 3, high, leavingNow), "a", 0, 1, 2), at(pod("y", 1, low), "b", 0)},
			waiting: two, fits: true,
		},
		"none of a gang whose spare Pods leave already": {
			running: []*corev1.Pod{
				at(pod("g-0", 1, in("g", 2, 0), low, leavingNow), "a", 0), at(pod("g-1", 1, in("g", 2, 1), low), "a", 1),
				at(pod("g-2", 1, in("g", 2, 2), low), "a", 2), at(pod("g-3", 1, in("g", 2, 3), low, leavingNow), "b", 0),
			},
			waiting: two, fits: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 3)
			f.addNode("b", "l", 1)
			for name, allowed := range test.budgets {
				f.budget(name, allowed)
			}
			f.comes(test.running...)
			f.comes(test.waiting...)
			got, fits := f.wantVictims(test.waiting[0])
			if diff := cmp.Diff(test.want, got); diff != "" || fits != test.fits {
				t.Errorf("it fits then %t, want %t; victims (-want +got):\n%s", fits, test.fits, diff)
			}
		})
	}
}

// Evicting Pods of another leaf would not help a gang that has to be in one.
func TestNobodyLeavesInALeafThatIsNotTheGangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "near", 2)
	f.addNode("b", "far", 2)
	pods := gang("train", 2, 2, inOneLeaf, prioritized(5))
	f.comes(at(pods[0], "a", 0), at(pod("x", 1, prioritized(9)), "a", 1), at(pod("y", 2, prioritized(1)), "b", 0, 1), pods[1])
	if got, fits := f.wantVictims(pods[1]); fits || len(got) > 0 {
		t.Errorf("it fits %t, victims are %v", fits, got)
	}
}

// deletions returns a channel of the names of the Pods that are deleted. The API
// server refuses those that fail names.
func (f *fixture) deletions(fail string) <-chan string {
	names := make(chan string, 100)
	f.handle.client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.DeleteAction).GetName() //nolint:forcetypeassert // by the reactor's verb
		names <- name
		if name == fail {
			return true, nil, apierrors.NewInternalError(errLater)
		}
		return false, nil, nil
	})
	return names
}

var errLater = errors.New("later")

func TestVictimsAreMarkedAndDeleted(t *testing.T) {
	t.Parallel()
	x, y := at(pod("x", 1, prioritized(1)), "a", 0), at(pod("y", 1, prioritized(1)), "a", 1)
	f := newFixture(t, x, y)
	f.addNode("a", "l", 2)
	pods := gang("train", 2, 2, prioritized(5))
	f.comes(x, y)
	f.comes(pods...)
	deleted := f.deletions("")
	if decision := f.decide(pods[0]); decision.Node != "" {
		t.Fatalf("it fits: %+v", decision)
	}
	if got := f.Preempt(t.Context(), pods[0]); got != "2 Pods of a lower priority are preempted" {
		t.Errorf("the message is %q", got)
	}
	got := []string{<-deleted, <-deleted}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"x", "y"}, got); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	var marked []string // members of the gang are patched, too: they are nominated
	for _, action := range f.handle.client.Actions() {
		patch, ok := action.(clienttesting.PatchAction)
		if ok && strings.Contains(string(patch.GetPatch()), string(corev1.DisruptionTarget)) {
			marked = append(marked, patch.GetName())
		}
	}
	slices.Sort(marked)
	if diff := cmp.Diff([]string{"x", "y"}, marked); diff != "" {
		t.Errorf("Pods that say why they are deleted (-want +got):\n%s", diff)
	}
	// Until they are gone no other Pod gets their place.
	small := pod("small", 1)
	f.goes(x)
	f.comes(small)
	if decision := f.decide(small); decision.Node != "" {
		t.Errorf("a lower Pod takes the place: %+v", decision)
	}
	f.goes(y)
	if decision := f.decide(pods[0]); decision.Node != "a" {
		t.Errorf("the gang does not fit: %+v", decision)
	}
}

func TestTwoPreemptionsDoNotSpendTheSameBudget(t *testing.T) {
	t.Parallel()
	x, y := at(pod("x", 1, prioritized(1), app("web")), "a", 0), at(pod("y", 1, prioritized(1), app("web")), "b", 0)
	f := newFixture(t, x, y)
	f.addNode("a", "l", 1)
	f.addNode("b", "l", 1)
	f.budget("web", 1)
	first, second := pod("first", 1, prioritized(5)), pod("second", 1, prioritized(5))
	f.comes(x, y, first, second)
	deleted := f.deletions("")
	f.decide(first)
	if got := f.Preempt(t.Context(), first); got != "1 Pod of a lower priority is preempted" {
		t.Fatalf("the message is %q", got)
	}
	<-deleted
	f.decide(second)
	if got := f.Preempt(t.Context(), second); got != NoVictims {
		t.Errorf("while the first victim leaves: the message is %q, want %q", got, NoVictims)
	}
}

// A Pod without GPUs leaves because of its CPU, within a budget. Until the snapshot shows that it
// is terminating, nobody leaves in its place.
func TestAVictimWithoutGPUsIsKnownToLeave(t *testing.T) {
	t.Parallel()
	cpu := at(pod("cpu", 0, prioritized(1), app("web")), "a")
	cpu.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64")}
	other := at(pod("other", 1, prioritized(3)), "b", 0)
	f := newFixture(t, cpu, other)
	f.addNode("a", "l", 1)
	f.addNode("b", "l", 1)
	f.budget("web", 1)
	waiting := pod("waiting", 1, prioritized(5))
	f.comes(cpu, other, waiting)
	deleted := f.deletions("")
	f.decide(waiting)
	f.Preempt(t.Context(), waiting)
	if name := <-deleted; name != "cpu" {
		t.Fatalf("%s is deleted, want cpu", name)
	}
	if got, fits := f.wantVictims(waiting); len(got) > 0 || !fits {
		t.Errorf("while it leaves: it fits then: %t; victims %v, want no further one", fits, got)
	}
	f.goes(cpu)
	if f.registry.Terminating(cpu.UID) {
		t.Error("it is still remembered when it is gone")
	}
}

func TestNobodyIsPreempted(t *testing.T) {
	t.Parallel()
	never := corev1.PreemptNever
	tests := map[string]struct {
		waiting []*corev1.Pod
		want    string
	}{
		"by a Pod that does not want it":       {[]*corev1.Pod{pod("p", 1, prioritized(5), func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &never })}, "its preemption policy is Never"},
		"by Pods above their gang's minimum":   {[]*corev1.Pod{at(pod("g-0", 1, in("g", 1, 0), prioritized(5)), "b", 0), pod("g-1", 1, in("g", 1, 1), prioritized(5))}, "Pods above the gang's minimum"},
		"by a Pod that is larger than all":     {[]*corev1.Pod{pod("p", 8, prioritized(5))}, NoVictims},
		"by a Pod of the same priority":        {[]*corev1.Pod{pod("p", 1, prioritized(1))}, NoVictims},
		"by a gang of which too few are there": {[]*corev1.Pod{pod("g-0", 1, in("g", 2, 0), prioritized(5))}, ""},
		"by a gang that makes no sense":        {[]*corev1.Pod{pod("g-0", 1, in("g", -2, 0), prioritized(5))}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 1)
			f.addNode("b", "l", 1)
			f.comes(at(pod("x", 1, prioritized(1)), "a", 0))
			f.comes(test.waiting...)
			if len(test.waiting) == 1 {
				f.comes(at(pod("y", 1, prioritized(1)), "b", 0))
			}
			f.mirror.Refresh(f.nodes())
			last := test.waiting[len(test.waiting)-1]
			if got := f.Preempt(t.Context(), last); !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("the message is %q, want %q", got, test.want)
			}
			if len(f.handle.client.Actions()) > 0 {
				t.Errorf("requests: %v", f.handle.client.Actions())
			}
		})
	}
}

// Pods that wait at the barrier, or are being bound, are not deleted.
func TestPodsOnTheirWayAreNoVictims(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 1)
	low, high := pod("low", 1, prioritized(1)), pod("high", 1, prioritized(5))
	f.comes(low)
	if _, err := f.reserve(low, f.decide(low)); err != nil {
		t.Fatal(err)
	}
	f.comes(high)
	if decision := f.decide(high); decision.Node != "" {
		t.Fatalf("it fits: %+v", decision)
	}
	if got := f.Preempt(t.Context(), high); !strings.Contains(got, "are being bound") {
		t.Errorf("the message is %q", got)
	}
	f.podUpdated(low, at(low, "a", 0))
	if got, fits := f.wantVictims(high); !fits || !cmp.Equal(got, []string{"low"}) {
		t.Errorf("when it is bound: victims %v, fits %t", got, fits)
	}
}

func TestThoseThatCouldNotBeDeletedCountAgain(t *testing.T) {
	t.Parallel()
	pods := gang("low", 2, 2, prioritized(1))
	bound := []*corev1.Pod{at(pods[0], "a", 0), at(pods[1], "a", 1)}
	f := newFixture(t, bound[0], bound[1])
	f.addNode("a", "l", 2)
	f.comes(bound...)
	preemptor := pod("high", 2, prioritized(5))
	f.comes(preemptor)
	f.deletions("low-1")
	f.handle.takeActivated()
	f.registry.MarkTerminating([]types.UID{bound[0].UID, bound[1].UID}, true)
	f.evictor.Evict(t.Context(), "group", preemptor, bound, nil)
	if diff := cmp.Diff([]string{"high"}, f.handle.takeActivated()); diff != "" {
		t.Errorf("activated (-want +got):\n%s", diff)
	}
	// The one that stays counts for its gang: a Pod that comes joins it.
	f.comes(pod("low-2", 1, in("low", 2, 2), prioritized(1)))
	if attempt := f.registry.Attempt("low-2"); attempt == nil || attempt.Need != 1 {
		t.Errorf("attempt %+v, want one that joins", attempt)
	}
}
