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
	"falldio.github.io/gpu-controller/scheduler/binding"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// candidate is a leader that has not been elected yet.
type candidate struct{ acquired chan struct{} }

func (c candidate) Acquired() <-chan struct{} { return c.acquired }
func (c candidate) Leads() bool               { return true }

// standby makes the fixture one that has not taken over.
func (f *fixture) standby() candidate {
	c := candidate{make(chan struct{})}
	f.leader = c
	f.registry = gangs.NewRegistry(gangs.Timing{Partial: time.Minute, Again: fallbackRetry, Settle: cacheLag, MaxRefusals: 5})
	f.registry.Serve(ours)
	f.current.Store(false)
	return c
}

// takesOver runs takeOver while time passes, and updates the registry with the Pods when
// they are looked at. It returns once taking over has ended.
func (f *fixture) takesOver(ctx context.Context, informer func()) (took bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		took = f.takeOver(ctx)
	}()
	for {
		select {
		case <-done:
			return took
		case <-time.After(time.Millisecond):
			informer()
			f.clock.Step(takeOverPeriod)
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

// fenced returns the names of the Pods that have the mark of this process.
func (f *fixture) fenced(ctx context.Context) string {
	f.t.Helper()
	list, err := f.handle.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if binding.InstanceOf(&list.Items[i]) == "this" {
			names = append(names, list.Items[i].Name)
		}
	}
	return strings.Join(names, " ")
}

func TestNobodyIsQueuedBeforeThisProcessLeads(t *testing.T) {
	t.Parallel()
	waits := pod("waits", 1)
	f := newFixture(t, waits)
	c := f.standby()
	f.comes(waits)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if f.takeOver(ended) {
		t.Error("a standby took over")
	}
	if f.Gate(waits) == "" || f.fenced(t.Context()) != "" {
		t.Error("a standby has begun to work")
	}
	close(c.acquired)
	if !f.takesOver(t.Context(), func() { f.informs("waits") }) {
		t.Error("the leader did not take over")
	}
	if why := f.Gate(waits); why != "" {
		t.Errorf("the leader does not queue the Pod: %s", why)
	}
}

func TestTheNewLeaderFencesWhatItsPredecessorsMayHaveBound(t *testing.T) {
	t.Parallel()
	waits, runs, cpu, other, gated, leaves := pod("waits", 1), at(pod("runs", 1), "a"), pod("cpu", 0), pod("other", 1), pod("gated", 1), pod("leaves", 1)
	cpu.Spec.Containers[0].Resources.Requests = nil
	other.Spec.SchedulerName = "default-scheduler"
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	leaves.DeletionTimestamp, leaves.Finalizers = &metav1.Time{Time: beginning}, []string{"f"}
	f := newFixture(t, waits, runs, cpu, other, gated, leaves)
	c := f.standby()
	close(c.acquired)
	fails := 2
	f.handle.client.PrependReactor("*", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		fails--
		return fails >= 0, nil, errors.New("the API server is away")
	})
	// The fake knows no field selectors; the planner looks at what it gets.
	if !f.takesOver(t.Context(), func() { f.clock.Step(listRetryPeriod); f.informs("waits", "runs") }) {
		t.Fatal("it did not take over")
	}
	if got := f.fenced(t.Context()); got != "waits" {
		t.Errorf("it fenced %q, want just the Pod that waits for this scheduler", got)
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

// Its informers never show these Pods to a scheduler, or not with its mark.
func TestTakingOverDoesNotWaitForPodsThatNeverCome(t *testing.T) {
	t.Parallel()
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	tests := map[string]struct {
		pod *corev1.Pod
		// marked is the Pod after it was fenced; nil if it is as it was, with the mark.
		marked func(*corev1.Pod)
	}{
		"it has failed without a node":              {pod("p", 1, failed), nil},
		"it has succeeded without a node":           {pod("p", 1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), nil},
		"it fails while it is fenced":               {pod("p", 1), failed},
		"it fails meanwhile and a finalizer stays":  {pod("p", 1, func(p *corev1.Pod) { p.Finalizers = []string{"f"} }), failed},
		"it is not ours any more as its claims are": {pod("p", 1), func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.pod)
			c := f.standby()
			close(c.acquired)
			f.handle.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				if test.marked == nil {
					return false, nil, nil
				}
				test.marked(test.pod)
				return true, test.pod, f.handle.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), test.pod, "default")
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if !f.takesOver(ctx, func() {}) {
				t.Fatalf("it has not taken over after %v of its time", f.clock.Since(beginning))
			}
			if took := f.clock.Since(beginning); took > time.Second {
				t.Errorf("it took over after %v", took)
			}
		})
	}
}

func TestTakingOverDoesNotWaitForAMarkThatSomebodyHasRemoved(t *testing.T) {
	t.Parallel()
	p := pod("p", 1, func(p *corev1.Pod) { p.ResourceVersion = "2" })
	f := newFixture(t, p)
	c := f.standby()
	f.comes(p)
	close(c.acquired)
	f.handle.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, p, nil })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if !f.takesOver(ctx, func() {}) {
		t.Error("it waits for a mark although it has seen the Pod as it is")
	}
}

func TestWhatTakingOverWaitsForIsNamedAfterFiveSeconds(t *testing.T) {
	t.Parallel()
	var late []runtime.Object
	for _, name := range []string{"e", "d", "c", "b", "a"} {
		late = append(late, pod(name, 1))
	}
	f := newFixture(t, late...)
	c := f.standby()
	if why := f.Unready(); why != "" {
		t.Errorf("a standby is not ready: %s", why)
	}
	close(c.acquired)
	requests := func() int { return len(f.handle.client.Actions()) }
	looked := 0
	f.takesOver(t.Context(), func() {
		why, waited := f.Unready(), f.clock.Since(beginning)
		switch {
		case waited < takeOverPatience && why != "":
			t.Errorf("it complains after %v: %s", waited, why)
		case waited == 10*time.Second:
			looked = requests()
		case waited > 20*time.Second:
			want := "no Pods with GPUs are scheduled yet: gpu-scheduler has become the leader and waits for its cache to show default/a, default/b, default/c and 2 more"
			if why != want {
				t.Errorf("got %q, want %q", why, want)
			}
			f.informs("a", "b", "c", "d", "e")
		}
	})
	if why := f.Unready(); why != "" {
		t.Errorf("it is not ready although it has taken over: %s", why)
	}
	if asked := requests() - looked; looked == 0 || asked > 5*20 {
		t.Errorf("it asked the API server %d times in ten seconds about five Pods", asked)
	}
}

func TestAnotherSchedulerThatBindsPodsIsReported(t *testing.T) {
	t.Parallel()
	bound := func(instance string) *corev1.Pod {
		p := at(pod("p", 1), "a", 0)
		p.Annotations[v1.AnnotationSchedulerInstance] = instance
		return p
	}
	tests := map[string]struct {
		pod     *corev1.Pod
		standby bool
		want    string
	}{
		"itself":                  {bound("this/1"), false, ""},
		"one that leaves no mark": {at(pod("p", 1), "a", 0), false, ""},
		"another one":             {bound("other/1"), false, "Warning SecondScheduler Bound by other, which schedules beside this: both give out the same GPUs"},
		"the leader before it":    {bound("other/1"), true, ""},
		"one of other nodes":      {at(bound("other/1"), "elsewhere"), false, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 1)
			f.mirror.Refresh(f.nodes())
			f.current.Store(!test.standby)
			waits := pod("p", 1)
			f.comes(waits)
			f.podUpdated(waits, test.pod)
			f.podUpdated(waits, test.pod) // it is not reported twice in a minute
			got := ""
			select {
			case got = <-f.handle.recorder.Events:
			default:
			}
			if got != test.want || len(f.handle.recorder.Events) > 0 {
				t.Errorf("got the Event %q and %d more, want %q", got, len(f.handle.recorder.Events), test.want)
			}
		})
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
