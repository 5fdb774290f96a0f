// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// failToBind lets a Pod reserve its place, pass the barrier, and fail to be bound.
func (f *fixture) failToBind(name string) (node string) {
	f.t.Helper()
	one := pod(name, 1)
	f.comes(one)
	decision := f.decide(one)
	if decision.Node == "" {
		f.t.Fatalf("Pod %s gets no place: %s", name, decision.Waits)
	}
	if wait, err := f.reserve(one, decision); wait || err != nil {
		f.t.Fatalf("Pod %s at the barrier: %t, %v", name, wait, err)
	}
	if err := f.infos[decision.Node].RemovePod(f.logger, at(one, decision.Node)); err != nil {
		f.t.Fatal(err)
	}
	f.Unreserve(one.UID, decision.Plan)
	f.podDeleted(one)
	return decision.Node
}

// place lets a Pod come, and returns the node that it gets.
func (f *fixture) place(pod *corev1.Pod) string {
	f.t.Helper()
	f.comes(pod)
	decision := f.decide(pod)
	if decision.Node == "" {
		f.t.Fatalf("Pod %s gets no place: %s", pod.Name, decision.Waits)
	}
	if wait, err := f.reserve(pod, decision); wait || err != nil {
		f.t.Fatalf("Pod %s at the barrier: %t, %v", pod.Name, wait, err)
	}
	return decision.Node
}

func TestANodeWherePodsCanNotBeBoundIsTheLastChoice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "leaf", 1) // the better one: it is full then
	f.addNode("b", "leaf", 8)
	first := f.failToBind("first")
	second := f.failToBind("second")
	if first != "a" || second != "b" {
		t.Fatalf("two Pods go to %s and %s, want a, which is better, and then b", first, second)
	}
	if third := f.failToBind("third"); third != "a" {
		t.Errorf("if both nodes have a fault, a Pod goes to %s, want a, which is better", third)
	}
	f.clock.Step(30 * time.Second)
	if fourth := f.failToBind("fourth"); fourth != "b" {
		t.Errorf("after half a minute a Pod goes to %s, want b: a has had two faults", fourth)
	}
}

func TestPodsUseNodesThatTheyAvoidOnlyIfNoOthersHaveRoom(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "leaf", 1) // the better one: it is full then
	f.addNode("b", "leaf", 1)
	avoidsA := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: corev1.NodeSelectorTerm{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a"}}},
			}}},
		}}
		return p
	}
	for _, want := range []string{"b", "a"} {
		one := avoidsA(pod("for "+want, 1))
		f.comes(one)
		if got := f.decide(one).Node; got != want {
			t.Errorf("a Pod goes to %q, want %s", got, want)
		}
	}
}

func TestANodeWhereAPodWasBoundHasNoFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "leaf", 1)
	f.addNode("b", "leaf", 8)
	f.failToBind("first")
	other := pod("other", 1)
	f.comes(other)
	f.podUpdated(other, at(other, "a", 0))
	f.podDeleted(at(other, "a", 0))
	if second := f.failToBind("second"); second != "a" {
		t.Errorf("a Pod goes to %s, want a: another one was bound there", second)
	}
}

// A member that waits at the barrier for others has nothing to do with why they don't come.
func TestWhoWaitsForOthersSaysNothingAboutItsNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "leaf", 1)
	f.addNode("b", "leaf", 1)
	pods := gang("train", 2, 2)
	f.comes(pods...)
	decision := f.decide(pods[0])
	if wait, err := f.reserve(pods[0], decision); !wait || err != nil {
		t.Fatalf("at the barrier: %t, %v, want it to wait", wait, err)
	}
	f.Unreserve(pods[0].UID, decision.Plan)
	if nodes := f.problems.LastChoices("default"); len(nodes) > 0 {
		t.Errorf("nodes %v have a fault", nodes)
	}
}

// A scheduler extender fails: the cycle ends before the Pod has reserved its seat, or the plan is never completed.
func TestAnErrorBeforeASeatIsReservedSaysNothingAboutItsNode(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *fixture, one *corev1.Pod){
		"the next cycle begins": func(f *fixture, one *corev1.Pod) { f.StartCycle(one, f.nodes(), false) },
		"the plan is overdue": func(f *fixture, _ *corev1.Pod) {
			f.clock.Step(f.PermitTimeout() + time.Second)
			f.maintain(f.t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "leaf", 1)
			one := pod("one", 1)
			f.comes(one)
			if decision := f.StartCycle(one, f.nodes(), false); decision.Node != "a" {
				t.Fatalf("decision is %+v", decision)
			}
			end(f, one)
			if f.registry.Placing(one.UID) {
				t.Fatal("it keeps its seat")
			}
			if nodes := f.problems.LastChoices("default"); len(nodes) > 0 {
				t.Errorf("nodes %v have a fault", nodes)
			}
		})
	}
}
