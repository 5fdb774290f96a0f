// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	taskfake "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/fake"
	taskinformers "falldio.github.io/gpu-controller/pkg/generated/informers/externalversions"
	"falldio.github.io/gpu-controller/pkg/gpupods"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixture is a rescheduler with fake clients. Its informers don't run: tests put objects
// into the caches themselves, and so control what it sees and when.
type fixture struct {
	*Rescheduler
	t      *testing.T
	clock  *clocktesting.FakeClock
	kube   *kubefake.Clientset
	fake   *taskfake.Clientset
	events *record.FakeRecorder

	taskCache, podCache, nodeCache, planCache cache.Indexer
	// plan is the one that create stores.
	plan *v1.MovePlan
}

// settings are what a test may change.
type settings struct {
	Dependencies
	Options
}

func newFixture(t *testing.T, change ...func(*settings)) *fixture {
	t.Helper()
	f := &fixture{
		t: t, clock: clocktesting.NewFakeClock(testTime),
		kube: kubefake.NewClientset(), fake: taskfake.NewClientset(), events: record.NewFakeRecorder(100),
	}
	core := informers.NewSharedInformerFactory(f.kube, 0)
	taskPods := core.Core().V1().Pods()
	f.podCache = taskPods.Informer().GetIndexer()
	pods, err := gpupods.New(t.Context(), gpupods.Dependencies{Kube: f.kube, NodeInformers: core, TaskPods: taskPods, Clock: f.clock})
	if err != nil {
		t.Fatal(err)
	}
	falldio := taskinformers.NewSharedInformerFactory(f.fake, 0).Falldio().V1()
	f.taskCache, f.planCache = falldio.GPUTasks().Informer().GetIndexer(), falldio.MovePlans().Informer().GetIndexer()
	with := settings{
		Dependencies{
			Kube: f.kube, Client: f.fake, NodeInformers: core, GPUTasks: falldio.GPUTasks().Lister(), PodsOf: f.podsOf, Pods: pods,
			MovePlans: falldio.MovePlans(), Recorder: f.events, Metrics: prometheus.NewRegistry(), Evictions: NewEvictions(), Clock: f.clock,
		},
		DefaultOptions(),
	}
	with.Period = time.Minute
	for _, apply := range change {
		apply(&with)
	}
	if f.Rescheduler, err = New(t.Context(), with.Dependencies, with.Options); err != nil {
		t.Fatal(err)
	}
	f.nodeCache = f.deps.NodeInformers.Core().V1().Nodes().Informer().GetIndexer()
	return f
}

// podsOf returns the Pods of a task that the cache shows.
func (f *fixture) podsOf(task *v1.GPUTask) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, object := range f.podCache.List() {
		if pod, ok := object.(*corev1.Pod); ok && metav1.IsControlledBy(pod, task) {
			pods = append(pods, pod)
		}
	}
	return pods
}

func newTask(name string) *v1.GPUTask {
	return &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(testTime.Add(-time.Minute))},
		Spec:       v1.GPUTaskSpec{GPUAmount: "1", GPU: "h100", Replicas: ptr.To[int32](1), BackoffLimit: ptr.To[int32](6), FailurePolicy: v1.RestartTask},
	}
}

// newPod returns the Pod of a task.
func (f *fixture) newPod(task *v1.GPUTask) *corev1.Pod {
	f.t.Helper()
	pod, err := gputask.NewPod(task, 0, 0, gputask.PodDefaults{Image: "image"})
	if err != nil {
		f.t.Fatal(err)
	}
	return pod
}

func gpuNode(name, model, gpus string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelGPUModel: model}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{v1.ResourceGPU: resource.MustParse(gpus), corev1.ResourcePods: resource.MustParse("110")},
		},
	}
}

// addTask stores a task of h100s that runs on a node, or waits for one.
func (f *fixture) addTask(name, gpus, node string) *v1.GPUTask {
	f.t.Helper()
	task := newTask(name)
	task.Spec.GPUAmount, task.Status.Phase = gpus, v1.PhaseRunning
	if node == "" {
		task.Status.Phase = v1.PhasePending
	}
	if err := f.fake.Tracker().Add(task); err != nil {
		f.t.Fatal(err)
	}
	pod := f.newPod(task)
	pod.UID, pod.CreationTimestamp = types.UID("pod-of-"+name), metav1.NewTime(testTime.Add(-time.Minute))
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodPending
	if node != "" {
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &pod.CreationTimestamp
	}
	if err := f.kube.Tracker().Add(pod); err != nil {
		f.t.Fatal(err)
	}
	return task
}

// observe copies the objects in the API server into the caches and calls the event handlers
// for the plans, as the informers would.
func (f *fixture) observe() {
	f.t.Helper()
	ctx, options := f.t.Context(), metav1.ListOptions{}
	tasks, err := f.fake.FalldioV1().GPUTasks("").List(ctx, options)
	f.must(err)
	plans, err := f.fake.FalldioV1().MovePlans().List(ctx, options)
	f.must(err)
	pods, err := f.kube.CoreV1().Pods("").List(ctx, options)
	f.must(err)
	nodes, err := f.kube.CoreV1().Nodes().List(ctx, options)
	f.must(err)
	f.must(f.taskCache.Replace(pointers(tasks.Items), ""))
	f.must(f.planCache.Replace(pointers(plans.Items), ""))
	f.must(f.podCache.Replace(pointers(pods.Items), ""))
	f.must(f.nodeCache.Replace(pointers(nodes.Items), ""))
	for i := range plans.Items {
		f.expectations.ObserveVersion(plans.Items[i].Name, plans.Items[i].ResourceVersion)
	}
	f.fake.ClearActions()
	f.kube.ClearActions()
}

func pointers[T any](items []T) []any {
	list := make([]any, len(items))
	for i := range items {
		list[i] = &items[i]
	}
	return list
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// writes returns the verbs and resources of all requests that change something, those of
// tasks and plans first.
func (f *fixture) writes() []string {
	var verbs []string
	for _, action := range append(f.fake.Actions(), f.kube.Actions()...) {
		switch action.GetVerb() {
		case "get", "list", "watch":
			continue
		}
		verb := action.GetVerb() + " " + action.GetResource().Resource
		if action.GetSubresource() != "" {
			verb += "/" + action.GetSubresource()
		}
		verbs = append(verbs, verb)
	}
	return verbs
}

// evictions returns how many evictions were requested.
func (f *fixture) evictions() int {
	count := 0
	for _, write := range f.writes() {
		if write == "create pods/eviction" {
			count++
		}
	}
	return count
}

// failNext makes the next request of a kind fail with the error.
func failNext(fake *clienttesting.Fake, verb, resource string, err error) {
	failed := false
	fake.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		if failed {
			return false, nil, nil
		}
		failed = true
		return true, nil, err
	})
}

// whenEvicted shows the task in the cache as soon as a Pod is evicted.
func (f *fixture) whenEvicted(task *v1.GPUTask) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() == "eviction" {
			f.must(f.taskCache.Add(task))
		}
		return false, nil, nil
	}
}

// newPlanFixture returns a cluster of two nodes of four GPUs, each with a task of two, and
// a pending task of four; and the plan to move one of the others.
func newPlanFixture(t *testing.T, change ...func(*settings)) *fixture {
	t.Helper()
	f := newFixture(t, change...)
	f.kube.PrependReactor("create", "pods", f.evictAtOnce)
	for _, name := range []string{"n0", "n1"} {
		f.must(f.kube.Tracker().Add(gpuNode(name, "h100", "4")))
	}
	f.addTask("stays", "2", "n0")
	mover := f.addTask("moves", "2", "n1")
	big := f.addTask("big", "4", "")
	f.plan = &v1.MovePlan{ObjectMeta: metav1.ObjectMeta{Name: "make-room", UID: "uid-of-plan", CreationTimestamp: metav1.NewTime(testTime)}, Spec: v1.MovePlanSpec{
		Goal: v1.GoalPendingTask, Reason: "big fits nowhere", Approved: true, Gain: v1.MoveGain{GPUs: 4},
		For:    &v1.TaskReference{Namespace: "default", Name: "big", UID: big.UID},
		Places: []v1.PodPlace{{Pod: "big", MovePlace: v1.MovePlace{Node: "n1"}}},
		Moves: []v1.Move{{
			Task: v1.TaskReference{Namespace: "default", Name: "moves", UID: mover.UID}, Pod: "moves", PodUID: "pod-of-moves", GPUs: "2",
			From: v1.MovePlace{Node: "n1"}, To: v1.MovePlace{Node: "n0"}, LostGPUSeconds: 60,
		}},
	}}
	f.observe()
	return f
}

// create stores the plan.
func (f *fixture) create() {
	f.t.Helper()
	f.must(f.fake.Tracker().Add(f.plan))
	f.observe()
}

// evictAtOnce is an Eviction API whose Pods stop at once.
func (f *fixture) evictAtOnce(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "eviction" {
		return false, nil, nil
	}
	name := action.(clienttesting.CreateAction).GetObject().(metav1.Object).GetName() //nolint:forcetypeassert // an Eviction
	return true, nil, f.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), action.GetNamespace(), name)
}

// pass makes one pass over the plans and returns what was written.
func (f *fixture) pass() []string {
	f.t.Helper()
	_, err := f.executePlans(f.t.Context())
	f.must(err)
	writes := f.writes()
	f.observe()
	return writes
}

// replace creates the Pod of a task if there is none, as the controller does it, and
// returns it.
func (f *fixture) replace(task string) *corev1.Pod {
	f.t.Helper()
	pods := f.kube.CoreV1().Pods("default")
	pod, err := pods.Get(f.t.Context(), task, metav1.GetOptions{})
	if err != nil {
		pod = f.newPod(newTask(task))
		f.must(f.Steer(pod))
		_, err := pods.Create(f.t.Context(), pod, metav1.CreateOptions{})
		f.must(err)
		f.observe()
	}
	return pod
}

// current returns the plan from the API server.
func (f *fixture) current() *v1.MovePlan {
	f.t.Helper()
	plan, err := f.fake.FalldioV1().MovePlans().Get(f.t.Context(), f.plan.Name, metav1.GetOptions{})
	f.must(err)
	return plan
}

// bind puts a Pod on a node, where it runs.
func (f *fixture) bind(name, node string) {
	f.t.Helper()
	pods := f.kube.CoreV1().Pods("default")
	pod, err := pods.Get(f.t.Context(), name, metav1.GetOptions{})
	f.must(err)
	if pod.UID == "" {
		pod.UID = types.UID("new-pod-of-" + name)
	}
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
	_, err = pods.Update(f.t.Context(), pod, metav1.UpdateOptions{})
	f.must(err)
	f.observe()
}

// reserved returns the reservations on nodes.
func (f *fixture) reserved(nodes ...string) string {
	f.t.Helper()
	var all strings.Builder
	for _, name := range nodes {
		node, err := f.kube.CoreV1().Nodes().Get(f.t.Context(), name, metav1.GetOptions{})
		f.must(err)
		all.WriteString(node.Annotations[reservation.Annotation])
	}
	return all.String()
}

// drain returns the Events since the last call.
func (f *fixture) drain() []string {
	var texts []string
	for len(f.events.Events) > 0 {
		texts = append(texts, <-f.events.Events)
	}
	return texts
}
