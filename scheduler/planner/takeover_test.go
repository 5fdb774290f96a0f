// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// candidate is a leader that has not been elected yet.
type candidate struct{ acquired chan struct{} }

func (c candidate) Acquired() <-chan struct{} { return c.acquired }
func (c candidate) Leads() bool               { return true }

// standby makes the fixture one that has not taken over.
func (f *fixture) standby() candidate {
	c := candidate{make(chan struct{})}
	f.registry = gangs.NewRegistry(gangs.Timing{Partial: time.Minute, Again: fallbackRetry, Settle: cacheLag, MaxRefusals: 5})
	f.registry.Serve(ours)
	f.begins(c)
	return c
}

// takesOver begins the term while time passes, and updates the registry with the Pods when
// they are looked at. It returns once taking over has ended.
func (f *fixture) takesOver(ctx context.Context, informer func()) (took bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		took = f.term.Begin(ctx)
	}()
	for {
		select {
		case <-done:
			return took
		case <-time.After(time.Millisecond):
			informer()
			f.clock.Step(100 * time.Millisecond)
		}
	}
}

// informs delivers Pods to the registry as they are now.
func (f *fixture) informs(names ...string) {
	for _, name := range names {
		live, err := f.handle.client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
		if err == nil {
			f.podUpdated(nil, live)
		}
	}
}

func TestTakingOverWaitsUntilTheInformerShowsWhatWasBoundBefore(t *testing.T) {
	t.Parallel()
	late, gone := pod("late", 1), pod("gone", 1)
	f := newFixture(t, late, gone)
	f.addNode("a", "l", 1)
	c := f.standby()
	f.comes(late, gone)
	close(c.acquired)
	f.handle.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.(clienttesting.PatchAction).GetName() != "late" {
			return false, nil, nil
		}
		// The Binding of a predecessor came first.
		bound := at(late, "a", 0)
		return true, bound, f.handle.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), bound, "default")
	})
	looks := 0
	took := f.takesOver(t.Context(), func() {
		switch looks++; {
		case looks == 5: // the informer is slow
			f.podDeleted(gone)
			_ = f.handle.client.CoreV1().Pods("default").Delete(t.Context(), "gone", metav1.DeleteOptions{})
		case looks > 10:
			f.informs("late")
		case f.Gate(late) == "":
			t.Error("a Pod may be queued before the informer shows what was bound")
		}
	})
	if !took {
		t.Fatal("it did not take over")
	}

	urgent := pod("urgent", 1, prioritized(100))
	f.comes(urgent)
	if decision := f.decide(urgent); decision.Node != "" || !strings.Contains(decision.Waits, "just started") {
		t.Errorf("got %+v while kube-scheduler's cache does not show what runs on the node", decision)
	}
	if done := f.Preempt(t.Context(), urgent); done != "" {
		t.Errorf("it preempts although it does not know what runs: %s", done)
	}
	f.infos["a"].AddPod(at(late, "a", 0))
	if decision := f.decide(urgent); decision.Node != "" || strings.Contains(decision.Waits, "just started") {
		t.Errorf("got %+v, want that the only GPU is in use", decision)
	}
}

// TestABindingIsForTheSeatThatItWasSentFor: the Pod's gang changes while its Binding is
// in flight, which takes its seat away and gives it another one, on another node.
func TestABindingIsForTheSeatThatItWasSentFor(t *testing.T) {
	t.Parallel()
	p := pod("p", 1)
	f := newFixture(t, p)
	f.addNode("a", "l", 1)
	f.addNode("b", "l", 1)
	f.comes(p)
	decision := f.decide(p)
	first := decision.Node
	if first == "" {
		t.Fatalf("it has no seat: %+v", decision)
	}
	if wait, err := f.reserve(p, decision); wait || err != nil {
		t.Fatalf("it does not pass the barrier: %t, %v", wait, err)
	}
	sent := 0
	f.handle.client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if sent++; sent > 1 {
			t.Error("a Binding was sent for a seat that the Pod no longer has")
			return true, nil, nil
		}
		changed := p.DeepCopy()
		changed.ResourceVersion = "2"
		changed.Labels[v1.LabelTask] = "other"
		f.podUpdated(p, changed)
		f.infos[first].Node().Spec.Unschedulable = true
		closed := f.infos[first].Node().DeepCopy()
		f.infos[first].SetNode(closed)
		if next := f.decide(changed); next.Node == "" || next.Node == first {
			t.Errorf("it should get a seat on the other node: %+v", next)
		}
		return true, nil, apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("modified"))
	})
	if err := f.Bind(t.Context(), p, first, decision.Plan); err == nil {
		t.Error("the Binding succeeded")
	}
}
