// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	taskfake "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/fake"
	"falldio.github.io/gpu-controller/pkg/gpupods"
	"falldio.github.io/gpu-controller/pkg/queuewatch"
)

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixture is an Accountant that runs with fake clients and a fake clock.
type fixture struct {
	t        *testing.T
	clock    *clocktesting.FakeClock
	kube     *kubefake.Clientset
	client   *taskfake.Clientset
	registry *prometheus.Registry
	recorder *record.FakeRecorder
	stop     func()
}

func newFixture(t *testing.T, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: clocktesting.NewFakeClock(testTime), kube: kubefake.NewClientset(), client: taskfake.NewSimpleClientset(), recorder: record.NewFakeRecorder(100)}
	for _, object := range objects {
		f.add(object)
	}
	f.start()
	return f
}

func (f *fixture) add(object runtime.Object) {
	f.t.Helper()
	tracker := f.kube.Tracker()
	if _, ok := object.(*v1.GPUQueue); ok {
		tracker = f.client.Tracker()
	}
	if err := tracker.Add(object); err != nil {
		f.t.Fatal(err)
	}
}

// start runs a new process.
func (f *fixture) start() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(f.kube, 0)
	taskPods := informers.NewSharedInformerFactoryWithOptions(f.kube, 0, informers.WithTweakListOptions(func(list *metav1.ListOptions) {
		list.LabelSelector = v1.SelectorOfTasks
	}))
	watcher := queuewatch.New(f.client, f.clock)
	f.registry = prometheus.NewRegistry()
	pods, err := gpupods.New(ctx, gpupods.Dependencies{
		Kube: f.kube, NodeInformers: informers.NewSharedInformerFactory(f.kube, 0), TaskPods: taskPods.Core().V1().Pods(), Clock: f.clock,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	accountant, err := New(Dependencies{
		Client: f.client, Queues: watcher, Pods: pods,
		NamespaceOf: func(name string) *corev1.Namespace {
			namespace, _ := factory.Core().V1().Namespaces().Lister().Get(name)
			return namespace
		}, NamespacesSynced: factory.Core().V1().Namespaces().Informer().HasSynced,
		Recorder: f.recorder, Metrics: f.registry, Clock: f.clock,
	}, DefaultOptions())
	if err != nil {
		f.t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	taskPods.StartWithContext(ctx)
	taskPods.WaitForCacheSyncWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() { watcher.Run(ctx) })
	running.Go(func() { pods.Run(ctx) })
	running.Go(func() { accountant.Run(ctx) })
	f.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
		taskPods.Shutdown()
	})
	f.t.Cleanup(f.stop)
}

func newQueue(name string) *v1.GPUQueue {
	return &v1.GPUQueue{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Generation: 1, CreationTimestamp: metav1.NewTime(testTime.Add(-time.Hour))},
		Spec: v1.GPUQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{}, Resources: []v1.GPUQueueResource{{GPU: "*", Guaranteed: 1, Limit: new(int32(8))}},
		},
	}
}

// newPod returns a Pod of the queue vision that has run for half an hour. task is empty for a Pod of somebody else.
func newPod(name, task string, gpus int64) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-of-" + name), Labels: map[string]string{v1.LabelQueue: "vision"}},
		Spec: corev1.PodSpec{NodeName: "h100-0", Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{v1.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(testTime.Add(-30 * time.Minute))}}},
	}
	if task != "" {
		pod.Labels[v1.LabelTask] = task
	}
	return pod
}

var (
	node      = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "h100-0", Labels: map[string]string{v1.LabelGPUModel: "h100"}}}
	namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
)

func (f *fixture) status(queue string) v1.GPUQueueStatus {
	f.t.Helper()
	got, err := f.client.FalldioV1().GPUQueues().Get(context.Background(), queue, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return got.Status
}

// eventually waits for a condition while time goes by.
func (f *fixture) eventually(what string, holds func() (bool, any)) {
	f.t.Helper()
	for begin := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		held, state := holds()
		if held {
			return
		}
		if time.Since(begin) > 30*time.Second {
			f.t.Fatalf("it never happened that %s: %+v", what, state)
		}
		f.clock.Step(250 * time.Millisecond)
	}
}

func (f *fixture) writes() int {
	count := 0
	for _, action := range f.client.Actions() {
		if action.GetVerb() == "update" {
			count++
		}
	}
	return count
}

// isUseOf reports whether a queue has used so many GPUs since newPod's Pods began to run.
func isUseOf(t *testing.T, gpus float64, usage *v1.GPUQueueTime) bool {
	t.Helper()
	hours, err := strconv.ParseFloat(usage.GPUHours, 64)
	if err != nil {
		t.Fatal(err)
	}
	return math.Abs(hours-gpus*usage.AsOf.Sub(testTime.Add(-30*time.Minute)).Hours()) < 0.005
}

func TestStatusesAreWritten(t *testing.T) {
	t.Parallel()
	waiting := newPod("waiting", "", 2)
	waiting.Spec.NodeName, waiting.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
	f := newFixture(t, newQueue("vision"), node, namespace, newPod("task", "train", 4), newPod("other", "", 1), waiting,
		newPod("without", "", 0))
	f.eventually("the status is complete", func() (bool, any) {
		status := f.status("vision")
		return status.Summary != nil && status.Summary.Used == "5", status
	})
	status := f.status("vision")
	if status.Summary.Waiting != "2" || status.Summary.Borrowed != "4" || status.Running != 2 || status.Waiting != 1 {
		t.Errorf("%+v, %d run, %d wait", status.Summary, status.Running, status.Waiting)
	}
	if !isUseOf(t, 5, status.Usage) || status.Usage.Factor != "1.00" {
		t.Errorf("usage: %+v", status.Usage)
	}
	if got := status.Resources[1]; got.GPU != "h100" || got.Used != "5" {
		t.Errorf("of the model: %+v", got)
	}
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(`
# HELP gpu_controller_queue_tasks Tasks of a GPUQueue and its children, by state (running, waiting).
# TYPE gpu_controller_queue_tasks gauge
gpu_controller_queue_tasks{queue="vision",state="running"} 2
gpu_controller_queue_tasks{queue="vision",state="waiting"} 1
`), "gpu_controller_queue_tasks"); err != nil {
		t.Error(err)
	}
}

func TestAStatusIsWrittenAtMostOnceAMinute(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newQueue("vision"), newQueue("idle"), node, namespace, newPod("task", "train", 4))
	f.eventually("both have a status", func() (bool, any) {
		return f.status("vision").Usage != nil && f.status("idle").Usage != nil, f.writes()
	})
	begin, before := f.clock.Now(), f.writes()
	f.eventually("ten minutes have passed", func() (bool, any) { return f.clock.Since(begin) > 10*time.Minute, nil })
	if got := f.writes() - before; got < 1 || got > 12 {
		t.Errorf("%d writes in ten minutes for a queue that is used and one that is not, want at most 10 and a few", got)
	}
}

func TestAnotherProcessGoesOnFromTheStatus(t *testing.T) {
	t.Parallel()
	pod := newPod("task", "train", 4)
	f := newFixture(t, newQueue("vision"), node, namespace, pod)
	f.eventually("there is a status", func() (bool, any) { return f.status("vision").Usage != nil, nil })
	f.stop()
	f.clock.Step(time.Hour)
	f.start()
	f.eventually("the hour is counted", func() (bool, any) {
		usage := f.status("vision").Usage
		return usage.AsOf.After(testTime.Add(time.Hour)) && isUseOf(t, 4, usage), usage
	})
	// Nothing is counted twice, and nothing after the end.
	if err := f.kube.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("nothing is used", func() (bool, any) { return f.status("vision").Summary.Used == "0", f.status("vision").Summary })
	ended := f.status("vision").Usage.GPUHours
	begin := f.clock.Now()
	f.eventually("five minutes have passed", func() (bool, any) { return f.clock.Since(begin) > 5*time.Minute, nil })
	if got := f.status("vision").Usage.GPUHours; got != ended {
		t.Errorf("%s GPU-hours after the end, %s before", got, ended)
	}
}

func TestNothingIsCachedWithoutQueues(t *testing.T) {
	t.Parallel()
	f := newFixture(t, node, namespace, newPod("other", "", 1))
	begin := f.clock.Now()
	f.eventually("a minute has passed", func() (bool, any) { return f.clock.Since(begin) > time.Minute, nil })
	if slices.ContainsFunc(f.kube.Actions(), func(a clienttesting.Action) bool { return a.GetResource().Resource == "nodes" }) {
		t.Error("nodes are cached")
	}
	f.add(newQueue("vision"))
	f.eventually("the queue has a status", func() (bool, any) {
		status := f.status("vision")
		return status.Summary != nil && status.Summary.Used == "1", status
	})
}

func TestAFailedWriteIsRepeated(t *testing.T) {
	t.Parallel()
	f := newFixture(t, node, namespace)
	failures := 2
	f.client.PrependReactor("update", "gpuqueues", func(clienttesting.Action) (bool, runtime.Object, error) {
		if failures == 0 {
			return false, nil, nil
		}
		failures--
		return true, nil, errors.New("the API server is busy")
	})
	f.add(newQueue("vision"))
	f.eventually("the queue has a status", func() (bool, any) { return f.status("vision").Summary != nil, f.writes() })
}

func TestAQueueIsLookedAtAgainWhenNodesComeAndGo(t *testing.T) {
	t.Parallel()
	queue := newQueue("vision")
	queue.Spec.Resources[0].Guaranteed = 8
	f := newFixture(t, queue, node, namespace)
	effective := func() metav1.Condition {
		if condition := meta.FindStatusCondition(f.status("vision").Conditions, v1.ConditionQueueEffective); condition != nil {
			return *condition
		}
		return metav1.Condition{}
	}
	eventuallyIs := func(reason string) {
		t.Helper()
		f.eventually("it is "+reason, func() (bool, any) { return effective().Reason == reason, effective() })
	}
	eventuallyIs(v1.ReasonGuaranteeExceedsCluster)
	const warning = "Warning GuaranteeExceedsCluster 8 GPUs guaranteed, but the cluster has "
	if got := <-f.recorder.Events; got != warning+"0" {
		t.Error(got)
	}
	// Another process repeats nothing.
	f.stop()
	f.start()
	added := node.DeepCopy()
	added.Name, added.Status.Capacity = "h100-1", corev1.ResourceList{v1.ResourceGPU: resource.MustParse("8")}
	if _, err := f.kube.CoreV1().Nodes().Create(t.Context(), added, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventuallyIs(v1.ReasonQueueEffective)
	if err := f.kube.CoreV1().Nodes().Delete(t.Context(), added.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventuallyIs(v1.ReasonGuaranteeExceedsCluster)
	if got := <-f.recorder.Events; got != warning+"0" {
		t.Error(got)
	}
	f.stop()
	if got := len(f.recorder.Events); got > 0 {
		t.Errorf("%d more Events", got)
	}
}
