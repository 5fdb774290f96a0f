// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/leadership"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/mirror"
	"falldio.github.io/gpu-controller/scheduler/takeover"
)

const ours = "gpu-scheduler"

var beginning = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// testHandle is what the planner uses of the framework.
type testHandle struct {
	fwk.Handle
	client    *fake.Clientset
	informers informers.SharedInformerFactory
	recorder  *events.FakeRecorder
	// lister is the snapshot; nil in tests without kube-scheduler's filters.
	lister fwk.SharedLister
	// claims is kube-scheduler's view of resource claims; nil without dynamic resource allocation.
	claims fwk.SharedDRAManager

	mu        sync.Mutex
	waiting   map[types.UID]*waitingPod
	activated []string
}

func (h *testHandle) ClientSet() clientset.Interface                         { return h.client }
func (h *testHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }
func (h *testHandle) EventRecorder() events.EventRecorderLogger              { return h.recorder }

func (h *testHandle) SnapshotSharedLister() fwk.SharedLister { return h.lister }

func (h *testHandle) SharedDRAManager() fwk.SharedDRAManager { return h.claims }

func (h *testHandle) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, pod := range pods {
		h.activated = append(h.activated, pod.Name)
	}
}

func (h *testHandle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one := h.waiting[uid]; one != nil {
		return one
	}
	return nil
}

// takeActivated returns the names of the Pods that were activated since.
func (h *testHandle) takeActivated() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := h.activated
	h.activated = nil
	slices.Sort(names)
	return names
}

// waitingPod is a Pod at the barrier.
type waitingPod struct {
	fwk.WaitingPod
	mu                sync.Mutex
	allowed, rejected bool
}

func (w *waitingPod) Allow(string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.allowed = true
}

func (w *waitingPod) Reject(string, string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rejected = true
	return true
}

// state returns whether it was allowed or rejected.
func (w *waitingPod) state() (allowed, rejected bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.allowed, w.rejected
}

// metricsOnce: metrics can only be registered once in a process.
var metricsOnce = sync.OnceValues(newInstruments)

// fixture is a planner, and what kube-scheduler's cache knows.
type fixture struct {
	*Planner
	t      testing.TB
	handle *testHandle
	clock  *clocktesting.FakeClock
	names  []string
	infos  map[string]*framework.NodeInfo
}

func newFixture(tb testing.TB, objects ...runtime.Object) *fixture {
	tb.Helper()
	client := fake.NewClientset(objects...)
	handle := &testHandle{
		client: client, informers: informers.NewSharedInformerFactory(client, 0), recorder: events.NewFakeRecorder(100),
		waiting: map[types.UID]*waitingPod{},
	}
	metrics, err := metricsOnce()
	if err != nil {
		tb.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(beginning)
	logger := ktesting.NewLogger(tb, ktesting.NewConfig())
	f := &fixture{
		Planner: assemble(config.DefaultGangArgs(), handle, clock, logger, metrics),
		t:       tb, handle: handle, clock: clock, infos: map[string]*framework.NodeInfo{},
	}
	f.begins(leadership.Always())
	f.registry.Serve(ours)
	f.registry.Start()
	if !f.term.IsCurrent() {
		tb.Fatal("nothing runs yet, and the snapshot does not show it")
	}
	return f
}

// begins gives the fixture a term in which no snapshot was seen yet.
func (f *fixture) begins(leader takeover.Leader) { connect(f.Planner, leader, "this") }

// addNode adds a node in a leaf, with so many cards: node-0, node-1 and so on.
func (f *fixture) addNode(name, leaf string, cards int) {
	f.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelLeaf: leaf}}}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("20"),
		v1.ResourceGPU: resource.MustParse(strconv.Itoa(cards)),
	}
	listed := inventory.Inventory{}
	for i := range cards {
		listed.GPUs = append(listed.GPUs, inventory.GPU{Index: i, UUID: fmt.Sprintf("%s-%d", name, i), MemoryMiB: 40960, Health: inventory.Healthy})
	}
	text, err := listed.String()
	if err != nil {
		f.t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, inventory.Annotation, text)
	info := framework.NewNodeInfo()
	info.SetNode(node)
	f.names = append(f.names, name)
	f.infos[name] = info
}

func (f *fixture) nodes() []fwk.NodeInfo {
	list := make([]fwk.NodeInfo, len(f.names))
	for i, name := range f.names {
		list[i] = f.infos[name]
	}
	return list
}

// holdsRoom reports whether anything is kept from a Pod that is not ours, the least important one.
func (f *fixture) holdsRoom() bool {
	return f.KeptRoom(pod("other", 0, prioritized(-1)), f.nodes()) != nil
}

// keptOn returns what is kept on a node from a Pod that is not ours.
func (f *fixture) keptOn(node string, pod *corev1.Pod) mirror.Withheld {
	room := f.KeptRoom(pod, f.nodes())
	if room == nil {
		return mirror.Withheld{}
	}
	held, _ := room.On(f.infos[node])
	return held
}

// comes delivers Pods to the informer; those that have a node are in the cache.
func (f *fixture) comes(pods ...*corev1.Pod) {
	f.t.Helper()
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			f.infos[pod.Spec.NodeName].AddPod(pod)
		}
		f.cached(pod)
		f.podUpdated(nil, pod)
	}
}

// goes removes a Pod from the cache and the informer.
func (f *fixture) goes(pod *corev1.Pod) {
	f.t.Helper()
	if pod.Spec.NodeName != "" {
		if err := f.infos[pod.Spec.NodeName].RemovePod(f.logger, pod); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.handle.informers.Core().V1().Pods().Informer().GetIndexer().Delete(pod); err != nil {
		f.t.Fatal(err)
	}
	f.podDeleted(pod)
}

// decide is a Pod's scheduling cycle up to its filters.
func (f *fixture) decide(pod *corev1.Pod) Decision { return f.Decide(pod, f.nodes(), false) }

// reserve is what follows: the Pod is assumed and comes to the barrier.
func (f *fixture) reserve(pod *corev1.Pod, decision Decision) (wait bool, err error) {
	f.infos[decision.Node].AddPod(at(pod, decision.Node))
	if wait, err = f.Barrier(pod.UID, decision.Plan); wait {
		f.handle.mu.Lock()
		defer f.handle.mu.Unlock()
		f.handle.waiting[pod.UID] = &waitingPod{}
	}
	return wait, err
}

// at returns the Pod on a node, with the cards of these numbers if there are any.
func at(pod *corev1.Pod, node string, cards ...int) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	if len(cards) == 0 {
		return pod
	}
	assignment := inventory.Assignment{}
	for _, card := range cards {
		assignment.Add("main", string(v1.ResourceGPU), fmt.Sprintf("%s-%d", node, card))
	}
	text, err := assignment.String()
	if err != nil {
		panic(err) // strings can always be encoded
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, inventory.AssignmentAnnotation, text)
	return pod
}

// pod returns a Pod that wants so many GPUs.
func pod(name string, gpus int, options ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{}, CreationTimestamp: metav1.NewTime(beginning),
	}}
	p.Spec.SchedulerName = ours
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), v1.ResourceGPU: resource.MustParse(strconv.Itoa(gpus)),
	}}}}
	for _, option := range options {
		option(p)
	}
	return p
}

func in(gang string, minimum, index int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels[v1.LabelPodGroup], p.Labels[v1.LabelMinAvailable] = gang, strconv.Itoa(minimum)
		p.Labels[v1.LabelIndex] = strconv.Itoa(index)
	}
}

func inOneLeaf(p *corev1.Pod) {
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.AnnotationTopologyLevel, "leaf")
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.AnnotationTopologyMode, string(v1.TopologyRequired))
}

func prioritized(priority int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &priority }
}

// gang returns the Pods of a gang with one GPU each.
func gang(name string, count, minimum int, options ...func(*corev1.Pod)) []*corev1.Pod {
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("%s-%d", name, i), 1, append([]func(*corev1.Pod){in(name, minimum, i)}, options...)...)
	}
	return pods
}
