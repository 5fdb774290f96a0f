// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeproblems

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// fixture is a Monitor of a process that leads.
type fixture struct {
	*Monitor
	t        *testing.T
	nodes    cache.Indexer
	recorder *events.FakeRecorder
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), recorder: events.NewFakeRecorder(100)}
	registry := gangs.NewRegistry(gangs.Timing{})
	registry.Serve("gpu-scheduler")
	f.Monitor = NewMonitor(Sources{
		Nodes: corelisters.NewNodeLister(f.nodes), Events: f.recorder, Clock: clocktesting.NewFakePassiveClock(beginning),
		Logger: ktesting.NewLogger(t, ktesting.NewConfig()), Registry: registry,
		Has: func(string) bool { return true }, MayAct: func() bool { return true },
	})
	return f
}

// boundPod returns a Pod of a task on node bad, with a GPU.
func boundPod(namespace, task string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: task, OwnerReferences: []metav1.OwnerReference{{UID: types.UID(task), Controller: new(true)}},
	}}
	p.Spec.SchedulerName, p.Spec.NodeName = "gpu-scheduler", "bad"
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		v1.ResourceGPU: resource.MustParse("1"),
	}}}}
	return p
}

// refuse lets a node refuse Pods that are bound to it.
func (f *fixture) refuse(pods ...*corev1.Pod) {
	f.t.Helper()
	for _, bound := range pods {
		refused := bound.DeepCopy()
		refused.Status.Phase, refused.Status.Reason = corev1.PodFailed, "UnexpectedAdmissionError"
		kept, err := f.withoutMost(refused)
		if err != nil {
			f.t.Fatal(err)
		}
		f.podFailed(kept.(*corev1.Pod))
	}
}

// wantLastChoices checks which nodes are the last choice for a namespace.
func (f *fixture) wantLastChoices(namespace string, want ...string) {
	f.t.Helper()
	if got := f.LastChoices(namespace); !slices.Equal(got, want) {
		f.t.Errorf("the last choices for namespace %s are %v, want %v", namespace, got, want)
	}
}

func TestANodeThatRefusesSeveralTasksIsTheLastChoiceForAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refuse(boundPod("a", "a"), boundPod("a", "a"))
	f.wantLastChoices("c")
	f.refuse(boundPod("b", "b"))
	f.wantLastChoices("c", "bad")
}

func TestANodeThatRefusesTheTasksOfOneNamespaceIsGoodForOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refuse(boundPod("a", "a"), boundPod("a", "a"), boundPod("a", "b"))
	f.wantLastChoices("a", "bad")
	f.wantLastChoices("other")
}

// Only Pods with GPUs show that the node starts Pods again.
func TestPodsWithoutGPUsThatANodeRefusesDontCount(t *testing.T) {
	t.Parallel()
	withClaim := func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }
	for name, test := range map[string]struct {
		option func(*corev1.Pod)
		want   []string
	}{
		"without GPUs":         {func(*corev1.Pod) {}, nil},
		"with resource claims": {withClaim, []string{"bad"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			for _, one := range []*corev1.Pod{boundPod("a", "a"), boundPod("a", "a"), boundPod("b", "b")} {
				one.Spec.Containers[0].Resources.Requests = nil
				test.option(one)
				f.refuse(one)
			}
			f.wantLastChoices("c", test.want...)
		})
	}
}

func TestANodeThatStartsAPodRefusesNoMore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refuse(boundPod("a", "a"), boundPod("a", "a"), boundPod("b", "b"))
	bound := boundPod("c", "c")
	started := bound.DeepCopy()
	started.Status.Phase = corev1.PodRunning
	f.PodChanged(bound, started)
	f.wantLastChoices("d")
}

func TestTheLastChoicesAreThoseThatPodsCouldNotBeBoundToAndThoseThatRefuseThem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refuse(boundPod("a", "a"), boundPod("a", "a"), boundPod("b", "b"))
	for _, node := range []string{"z", "bad", "a"} {
		f.BindingFailed(node)
	}
	f.wantLastChoices("c", "a", "bad", "z")
}

func TestAnEventOnTheNodeSaysThatItRefusesPods(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}); err != nil {
		t.Fatal(err)
	}
	f.refuse(boundPod("a", "a"), boundPod("a", "a"), boundPod("b", "b"))
	want := "The node has refused 3 Pods of 2 tasks within 5 minutes, the last one with UnexpectedAdmissionError: it is the last choice for all Pods until 12:02:00 UTC, or until it starts one"
	select {
	case event := <-f.recorder.Events:
		if !strings.Contains(event, want) {
			t.Errorf("Event %q\nwant %q", event, want)
		}
	default:
		t.Fatal("there is no Event")
	}
}
