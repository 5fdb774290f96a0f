// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	tasklisters "falldio.github.io/gpu-controller/pkg/generated/listers/gpucontroller/v1"
)

const (
	// hostileTasks is how many tasks come and go of which each mentions what no other does.
	hostileTasks = 10_000
	// atATime is how many of them there are at the same time.
	atATime = 100
)

// hostileName returns the name of a task.
func hostileName(i int) string { return fmt.Sprintf("hostile-%d-%s", i, strings.Repeat("x", 40)) }

// hostileTask returns a task that mentions as much as it can of what no other task does: a priority, a quota's demand,
// tasks that wait for each other, a time after which it is to be deleted.
func hostileTask(i int) *v1.GPUTask {
	task := newTask(hostileName(i), 2)
	task.Namespace, task.UID = fmt.Sprint("tenant-", i%10), types.UID(fmt.Sprint("uid-", i))
	switch i % 4 {
	case 0:
		task.Spec.Priority = fmt.Sprint("priority-", i)
	case 1:
		other := i - i%atATime + (i+20)%atATime // of the same namespace, and on a cycle
		task.Spec.DependsOn = []v1.Dependency{{Name: hostileName(other)}}
	case 2:
		task.Spec.TTLSecondsAfterFinished = new(int32(1 << 30))
	default:
		task.Spec.Priority = "quota"
	}
	return task
}

// answerHostile answers requests to create the objects of hostile tasks.
func (f *fixture) answerHostile() {
	attempt := 0
	f.kube.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok {
			return false, nil, nil
		}
		attempt++
		pod, ok := create.GetObject().(*corev1.Pod)
		switch {
		case !ok || pod.Spec.PriorityClassName == "": // without managed fields, which the fake clientset would take a millisecond for
			return true, create.GetObject(), f.kube.Tracker().Add(create.GetObject())
		case pod.Spec.PriorityClassName == "quota":
			text := fmt.Sprintf("exceeded quota: gpus, requested: requests.falldio.com/gpu=%d, used: requests.falldio.com/gpu=0, limited: requests.falldio.com/gpu=1", attempt)
			return true, nil, apierrors.NewForbidden(podResource, pod.Name, errors.New(text))
		default:
			return true, nil, apierrors.NewForbidden(podResource, pod.Name, fmt.Errorf("no PriorityClass with name %s was found", pod.Spec.PriorityClassName))
		}
	})
}

// keptOfTasks is how much a controller keeps for the tasks that there are, or were.
type keptOfTasks struct {
	refused, cycles, statuses, succeeded, gone, queued int
	expects                                            bool
}

func (c *Controller) kept(tasks []*v1.GPUTask) keptOfTasks {
	refused := 0
	for _, task := range tasks {
		if c.refusals.Of(task) != nil {
			refused++
		}
	}
	return keptOfTasks{
		refused: refused, cycles: len(c.cycles.known), statuses: len(c.statuses.debouncer.byTask),
		succeeded: len(c.uncounted.succeeded), gone: len(c.uncounted.gone) + len(c.uncounted.own), queued: c.queue.Len(), expects: c.expectations.AnyPending(),
	}
}

// come has tasks tried, and Pods of them succeed.
func (f *fixture) come(tasks []*v1.GPUTask) {
	f.t.Helper()
	for _, task := range tasks {
		f.store(task)
		f.cycles.changed(task)
	}
	f.cycles.update()
	for range 2 {
		for _, task := range tasks {
			_ = f.sync(task) // refusals are errors
		}
		f.observe()
		f.clock.Step(maxProgressDelay)
	}
	f.succeed()
	for _, task := range tasks {
		_ = f.sync(task)
	}
}

// succeed has all Pods succeed, and the caches show it.
func (f *fixture) succeed() {
	f.t.Helper()
	for _, object := range f.podIndex.List() {
		if pod, ok := object.(*corev1.Pod); ok {
			ended := pod.DeepCopy()
			ended.Spec.NodeName, ended.Status.Phase = "node", corev1.PodSucceeded
			f.show(ended)
			f.podChanged(ended)
		}
	}
}

// leave deletes tasks with all that belongs to them.
func (f *fixture) leave(tasks []*v1.GPUTask) {
	f.t.Helper()
	for _, task := range tasks {
		err := f.fake.FalldioV1().GPUTasks(task.Namespace).Delete(f.t.Context(), task.Name, metav1.DeleteOptions{})
		if err = errors.Join(err, f.taskIndex.Delete(task)); err != nil {
			f.t.Fatal(err)
		}
		f.taskDeleted(f.t.Context(), task)
	}
	for _, object := range append(f.podIndex.List(), f.serviceIndex.List()...) {
		switch object := object.(type) {
		case *corev1.Pod:
			err := f.kube.CoreV1().Pods(object.Namespace).Delete(f.t.Context(), object.Name, metav1.DeleteOptions{})
			if err = errors.Join(err, f.podIndex.Delete(object)); err != nil {
				f.t.Fatal(err)
			}
			f.podChanged(object)
		case *corev1.Service:
			err := f.kube.CoreV1().Services(object.Namespace).Delete(f.t.Context(), object.Name, metav1.DeleteOptions{})
			if err = errors.Join(err, f.serviceIndex.Delete(object)); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	f.cycles.update()
	f.clock.Step(podEventBatch)
	f.handleUntilQuiet()
	f.kube.ClearActions()
	f.fake.ClearActions()
}

// Tenants create and delete as many tasks as they like: what these mention must not stay.
func TestNothingStaysOfHostileTasks(t *testing.T) { //nolint:paralleltest // it measures the memory
	f := newFixture(t)
	f.recorder = &record.FakeRecorder{} // which keeps no Events
	f.answerHostile()
	before, memory := f.kept(nil), 0.0
	most, last := keptOfTasks{}, []*v1.GPUTask(nil)
	for first := 0; first < hostileTasks; first += atATime {
		tasks := make([]*v1.GPUTask, atATime)
		for i := range tasks {
			tasks[i] = hostileTask(first + i)
		}
		f.come(tasks)
		most = f.kept(tasks)
		f.leave(tasks)
		last = tasks
		if first == 0 {
			memory = usedMiB() // what is made only once is in use
		}
	}
	if most.refused < atATime/2 || most.cycles == 0 || most.succeeded == 0 {
		t.Errorf("the tasks have left no traces at all: %+v", most)
	}
	if after := f.kept(last); after != before {
		t.Errorf("kept is %+v, was %+v", after, before)
	}
	after := usedMiB()
	t.Logf("memory: %.1f MiB after the first %d tasks, %.1f MiB after %d", memory, atATime, after, hostileTasks)
	if after > memory+4 {
		t.Errorf("%.1f MiB are in use, %.1f MiB were before", after, memory)
	}
}

// usedMiB returns how much memory is in use.
func usedMiB() float64 {
	goruntime.GC()
	goruntime.GC()
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc) / (1 << 20)
}

// deletingLister deletes a task after it has returned it.
type deletingLister struct {
	tasklisters.GPUTaskLister
	tasklisters.GPUTaskNamespaceLister
	deleted func()
}

func (l *deletingLister) GPUTasks(namespace string) tasklisters.GPUTaskNamespaceLister {
	l.GPUTaskNamespaceLister = l.GPUTaskLister.GPUTasks(namespace)
	return l
}

func (l *deletingLister) List(selector labels.Selector) ([]*v1.GPUTask, error) {
	return l.GPUTaskLister.List(selector)
}

func (l *deletingLister) Get(name string) (*v1.GPUTask, error) {
	task, err := l.GPUTaskNamespaceLister.Get(name)
	if err == nil {
		l.deleted()
	}
	return task, err
}

// Pods and tasks are watched apart: a task may be deleted while an event of its Pod is handled.
func TestASuccessOfATaskThatIsDeletedMeanwhileIsNotKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 2))
	f.mustSync(task)
	f.observe()
	pod := f.cachedPods(task)[0].DeepCopy()
	pod.Status.Phase = corev1.PodSucceeded
	f.tasks = &deletingLister{GPUTaskLister: f.tasks, deleted: func() {
		if err := f.taskIndex.Delete(task); err != nil {
			t.Error(err)
		}
		f.taskDeleted(t.Context(), task)
	}}
	f.podChanged(pod)
	if len(f.uncounted.succeeded) > 0 {
		t.Error("the success of a Pod is kept whose task is deleted")
	}
}

// What waits in a queue stays there when its task is deleted.
func TestATaskWaitsInTheQueueForAnHourAtMost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := newTask("train", 1)
	task.Spec.TTLSecondsAfterFinished = new(int32(1 << 30))
	f.store(task)
	f.startAll(task, 0)
	f.change(task, f.cachedPods(task)[0], func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
	f.observe()
	f.eventually(func() bool { f.clock.Step(time.Second); return f.queue.Len() > 0 })
	f.handleUntilQuiet()
	if got := f.stored(task).Status.Phase; got != v1.PhaseSucceeded {
		t.Fatalf("phase %s", got)
	}
	f.clock.Step(time.Hour)
	f.eventually(func() bool { return f.queue.Len() > 0 })
}
