// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/binding"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

var beginning = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// candidate is a leader once it is elected.
type candidate struct{ acquired chan struct{} }

func (c candidate) Acquired() <-chan struct{} { return c.acquired }
func (c candidate) Leads() bool               { return true }

// oneNode is a cluster with a node that is called node.
type oneNode struct{}

func (oneNode) Shows(types.UID, string) bool { return true }
func (oneNode) Has(node string) bool         { return node == "node" }

// fixture is the term of a process that is not the leader yet.
type fixture struct {
	candidate
	t        *testing.T
	client   *fake.Clientset
	recorder *events.FakeRecorder
	clock    *clocktesting.FakeClock
	registry *gangs.Registry
	term     *Term
	// foreign is how many foreign Bindings were counted.
	foreign int
}

func newFixture(t *testing.T, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{
		candidate: candidate{make(chan struct{})}, t: t, client: fake.NewClientset(objects...), recorder: events.NewFakeRecorder(100),
		clock: clocktesting.NewFakeClock(beginning), registry: gangs.NewRegistry(gangs.Timing{Partial: time.Minute}),
	}
	f.registry.Serve("gpu-scheduler")
	f.term = NewTerm(Sources{
		Client: f.client, Events: f.recorder, Clock: f.clock, Logger: ktesting.NewLogger(t, ktesting.NewConfig()), Leader: f.candidate,
		Fencer: binding.NewFencer(f.client, f.clock, "this"), Registry: f.registry, Mirror: oneNode{}, Do: func(gangs.Actions) {}, CountForeign: func() { f.foreign++ },
	})
	return f
}

// pod returns a Pod that wants a GPU.
func pod(name string, options ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	p.Spec.SchedulerName = "gpu-scheduler"
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		v1.ResourceGPU: resource.MustParse("1"),
	}}}}
	for _, option := range options {
		option(p)
	}
	return p
}

// on returns the Pod on a node.
func on(p *corev1.Pod, node string) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

// begins has the term begin while time passes, and updates the registry with the Pods when they are looked at. It
// returns once that has ended.
func (f *fixture) begins(ctx context.Context, informer func()) (began bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		began = f.term.Begin(ctx)
	}()
	for {
		select {
		case <-done:
			return began
		case <-time.After(time.Millisecond):
			informer()
			f.clock.Step(period)
		}
	}
}

// informs delivers Pods to the registry as they are now.
func (f *fixture) informs(names ...string) {
	for _, name := range names {
		if live, err := f.client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{}); err == nil {
			f.registry.Observe(live)
		}
	}
}

// fenced returns the names of the Pods that have the mark of this process.
func (f *fixture) fenced(ctx context.Context) string {
	f.t.Helper()
	list, err := f.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
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
	waits := pod("waits")
	f := newFixture(t, waits)
	f.registry.Observe(waits)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if f.term.Begin(ended) {
		t.Error("a standby took over")
	}
	if f.registry.Gate(waits, f.clock.Now()) == "" || f.fenced(t.Context()) != "" {
		t.Error("a standby has begun to work")
	}
	close(f.acquired)
	if !f.begins(t.Context(), func() { f.informs("waits") }) {
		t.Error("the leader did not take over")
	}
	if why := f.registry.Gate(waits, f.clock.Now()); why != "" {
		t.Errorf("the leader does not queue the Pod: %s", why)
	}
}

func TestTheNewLeaderFencesWhatItsPredecessorsMayHaveBound(t *testing.T) {
	t.Parallel()
	waits, runs, cpu, other, gated, leaves := pod("waits"), on(pod("runs"), "node"), pod("cpu"), pod("other"), pod("gated"), pod("leaves")
	cpu.Spec.Containers[0].Resources.Requests = nil
	other.Spec.SchedulerName = "default-scheduler"
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	leaves.DeletionTimestamp, leaves.Finalizers = &metav1.Time{Time: beginning}, []string{"f"}
	f := newFixture(t, waits, runs, cpu, other, gated, leaves)
	close(f.acquired)
	fails := 2
	f.client.PrependReactor("*", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		fails--
		return fails >= 0, nil, errors.New("the API server is away")
	})
	// The fake knows no field selectors; the planner looks at what it gets.
	if !f.begins(t.Context(), func() { f.clock.Step(listRetryPeriod); f.informs("waits", "runs") }) {
		t.Fatal("it did not take over")
	}
	if got := f.fenced(t.Context()); got != "waits" {
		t.Errorf("it fenced %q, want just the Pod that waits for this scheduler", got)
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
		"it has failed without a node":              {pod("p", failed), nil},
		"it has succeeded without a node":           {pod("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), nil},
		"it fails while it is fenced":               {pod("p"), failed},
		"it fails meanwhile and a finalizer stays":  {pod("p", func(p *corev1.Pod) { p.Finalizers = []string{"f"} }), failed},
		"it is not ours any more as its claims are": {pod("p"), func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.pod)
			close(f.acquired)
			f.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				if test.marked == nil {
					return false, nil, nil
				}
				test.marked(test.pod)
				return true, test.pod, f.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), test.pod, "default")
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if !f.begins(ctx, func() {}) {
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
	p := pod("p", func(p *corev1.Pod) { p.ResourceVersion = "2" })
	f := newFixture(t, p)
	f.registry.Observe(p)
	close(f.acquired)
	f.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, p, nil })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if !f.begins(ctx, func() {}) {
		t.Error("it waits for a mark although it has seen the Pod as it is")
	}
}

func TestWhatTakingOverWaitsForIsNamedAfterFiveSeconds(t *testing.T) {
	t.Parallel()
	var late []runtime.Object
	for _, name := range []string{"e", "d", "c", "b", "a"} {
		late = append(late, pod(name))
	}
	f := newFixture(t, late...)
	if why := f.term.Unready(); why != "" {
		t.Errorf("a standby is not ready: %s", why)
	}
	close(f.acquired)
	requests := func() int { return len(f.client.Actions()) }
	looked := 0
	f.begins(t.Context(), func() {
		why, waited := f.term.Unready(), f.clock.Since(beginning)
		switch {
		case waited < patience && why != "":
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
	if why := f.term.Unready(); why != "" {
		t.Errorf("it is not ready although it has taken over: %s", why)
	}
	if asked := requests() - looked; looked == 0 || asked > 5*20 {
		t.Errorf("it asked the API server %d times in ten seconds about five Pods", asked)
	}
}

func TestAnotherSchedulerThatBindsPodsIsReported(t *testing.T) {
	t.Parallel()
	bound := func(instance string) *corev1.Pod {
		p := on(pod("p"), "node")
		p.Annotations = map[string]string{v1.AnnotationSchedulerInstance: instance}
		return p
	}
	tests := map[string]struct {
		pod     *corev1.Pod
		standby bool
		want    string
	}{
		"itself":                  {bound("this/1"), false, ""},
		"one that leaves no mark": {on(pod("p"), "node"), false, ""},
		"another one":             {bound("other/1"), false, "Warning SecondScheduler Bound by other, which schedules beside this: both give out the same GPUs"},
		"the leader before it":    {bound("other/1"), true, ""},
		"one of other nodes":      {on(bound("other/1"), "elsewhere"), false, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if !test.standby && !f.term.IsCurrent() {
				t.Fatal("nothing runs yet, and the snapshot does not show it")
			}
			f.term.CheckBinder(test.pod)
			f.term.CheckBinder(test.pod) // it is not reported twice in a minute
			if (f.foreign == 2) != (test.want != "") {
				t.Errorf("%d foreign Bindings are counted", f.foreign)
			}
			got := ""
			select {
			case got = <-f.recorder.Events:
			default:
			}
			if got != test.want || len(f.recorder.Events) > 0 {
				t.Errorf("got the Event %q and %d more, want %q", got, len(f.recorder.Events), test.want)
			}
		})
	}
}
