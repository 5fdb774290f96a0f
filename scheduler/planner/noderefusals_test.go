// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ofTask returns an option for Pods of a task.
func ofTask(namespace, task string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Namespace = namespace
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(task), Controller: new(true)}}
	}
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

// refuse lets a Pod be placed and bound, and its node refuse it. It returns the node.
func (f *fixture) refuse(pod *corev1.Pod) string {
	f.t.Helper()
	node := f.place(pod)
	bound := at(pod, node, 0)
	f.podUpdated(pod, bound)
	f.goes(bound) // for kube-scheduler, a Pod that has ended is gone
	f.refused(bound)
	return node
}

// refused lets a node refuse a Pod that is bound to it.
func (f *fixture) refused(bound *corev1.Pod) {
	f.t.Helper()
	refused := bound.DeepCopy()
	refused.Status.Phase, refused.Status.Reason = corev1.PodFailed, "UnexpectedAdmissionError"
	kept, err := f.withoutMost(refused)
	if err != nil {
		f.t.Fatal(err)
	}
	f.podFailed(kept.(*corev1.Pod))
}

func TestANodeThatRefusesSeveralTasksIsTheLastChoiceForAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("bad", "leaf", 1) // the better one: it is full then
	f.addNode("good", "leaf", 2)
	for _, one := range []*corev1.Pod{pod("a-0", 1, ofTask("a", "a")), pod("a-1", 1, ofTask("a", "a")), pod("b-0", 1, ofTask("b", "b"))} {
		if node := f.refuse(one); node != "bad" {
			t.Fatalf("Pod %s goes to %s, want bad, which nobody knows yet", one.Name, node)
		}
	}
	if node := f.place(pod("c-0", 2, ofTask("c", "c"))); node != "good" {
		t.Errorf("a Pod of another task goes to %s", node)
	}
	if node := f.place(pod("c-1", 1, ofTask("c", "c"))); node != "bad" {
		t.Errorf("where there is no other room, a Pod goes to %s, want bad", node)
	}
}

func TestANodeThatRefusesTheTasksOfOneNamespaceIsGoodForOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("bad", "leaf", 1)
	f.addNode("good", "leaf", 8)
	for _, one := range []*corev1.Pod{pod("a-0", 1, ofTask("a", "a")), pod("a-1", 1, ofTask("a", "a")), pod("b-0", 1, ofTask("a", "b"))} {
		f.refuse(one)
	}
	if node := f.place(pod("mine", 1, ofTask("a", "c"))); node != "good" {
		t.Errorf("the next task of the namespace goes to %s, want good", node)
	}
	if node := f.place(pod("other", 1, ofTask("other", "d"))); node != "bad" {
		t.Errorf("a task of another namespace goes to %s, want bad: what one namespace meets there says nothing about others", node)
	}
}

// Only Pods with GPUs show that the node starts Pods again.
func TestPodsWithoutGPUsThatANodeRefusesDontCount(t *testing.T) {
	t.Parallel()
	withClaim := func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }
	for name, test := range map[string]struct {
		option func(*corev1.Pod)
		want   string
	}{
		"without GPUs":         {func(*corev1.Pod) {}, "bad"},
		"with resource claims": {withClaim, "good"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("bad", "leaf", 1)
			f.addNode("good", "leaf", 8)
			for _, one := range []*corev1.Pod{pod("a-0", 0, ofTask("a", "a")), pod("a-1", 0, ofTask("a", "a")), pod("b-0", 0, ofTask("b", "b"))} {
				test.option(one)
				f.refused(at(one, "bad"))
			}
			if node := f.place(pod("next", 1, ofTask("c", "c"))); node != test.want {
				t.Errorf("a Pod with a GPU goes to %s, want %s", node, test.want)
			}
		})
	}
}

func TestANodeThatStartsAPodRefusesNoMore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("bad", "leaf", 1)
	f.addNode("good", "leaf", 8)
	for _, one := range []*corev1.Pod{pod("a-0", 1, ofTask("a", "a")), pod("a-1", 1, ofTask("a", "a")), pod("b-0", 1, ofTask("b", "b"))} {
		f.refuse(one)
	}
	bound := at(pod("c", 1, ofTask("c", "c")), "bad", 0)
	started := bound.DeepCopy()
	started.Status.Phase = corev1.PodRunning
	f.comes(bound)
	f.podUpdated(bound, started)
	f.goes(started)
	if node := f.place(pod("next", 1, ofTask("d", "d"))); node != "bad" {
		t.Errorf("a Pod goes to %s, want bad, which works again", node)
	}
}

func TestAnEventOnTheNodeSaysThatItRefusesPods(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("bad", "leaf", 8)
	if err := f.handle.informers.Core().V1().Nodes().Informer().GetStore().Add(f.infos["bad"].Node()); err != nil {
		t.Fatal(err)
	}
	for _, one := range []*corev1.Pod{pod("a-0", 1, ofTask("a", "a")), pod("a-1", 1, ofTask("a", "a")), pod("b-0", 1, ofTask("b", "b"))} {
		f.refuse(one)
	}
	want := "The node has refused 3 Pods of 2 tasks within 5 minutes, the last one with UnexpectedAdmissionError: it is the last choice for all Pods until 12:02:00 UTC, or until it starts one"
	select {
	case event := <-f.handle.recorder.Events:
		if !strings.Contains(event, want) {
			t.Errorf("Event %q\nwant %q", event, want)
		}
	case <-time.After(time.Second):
		t.Fatal("there is no Event")
	}
}
