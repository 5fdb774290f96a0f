// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// recordStatuses records the phase and message of every status that is written, and shows
// it to the controller as a watch would.
func (f *fixture) recordStatuses() *[]string {
	written := &[]string{}
	f.fake.PrependReactor("update", "gputasks", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if update, ok := action.(clienttesting.UpdateAction); ok {
			if task, ok := update.GetObject().(*v1.GPUTask); ok {
				*written = append(*written, string(task.Status.Phase)+": "+task.Status.Message)
				f.show(task.DeepCopy())
				f.expectations.ObserveVersion(keyOf(task), task.ResourceVersion)
			}
		}
		return false, nil, nil
	})
	return written
}

// change changes a Pod and handles the task once the batched Pod events are due.
func (f *fixture) change(task *v1.GPUTask, pod *corev1.Pod, change func(*corev1.Pod)) {
	f.t.Helper()
	changed := pod.DeepCopy()
	change(changed)
	f.show(changed)
	f.podChanged(changed)
	f.mustSync(task)
}

func (f *fixture) cachedPods(task *v1.GPUTask) []*corev1.Pod {
	pods := f.podsOf(task)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

func bindPod(pod *corev1.Pod)  { pod.Spec.NodeName = "node-" + pod.Name }
func startPod(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning }

// startAll creates a task's Pods, binds all of them and then starts them, one after the
// other, and waits until every delay is over.
func (f *fixture) startAll(task *v1.GPUTask, gap time.Duration) {
	f.t.Helper()
	f.mustSync(task)
	f.observe()
	f.mustSync(task)
	for _, step := range []func(*corev1.Pod){bindPod, startPod} {
		for _, pod := range f.cachedPods(task) {
			f.clock.Step(gap)
			f.change(task, pod, step)
		}
	}
	for range 3 {
		f.clock.Step(maxProgressDelay)
		f.mustSync(task)
	}
}

func TestATaskCostsTwoStatusesHoweverManyPodsItHas(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int32{1, 2, 20, 500} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			task := f.store(newTask("train", replicas))
			written := f.recordStatuses()
			f.startAll(task, 5*time.Millisecond)
			if len(*written) != 2 {
				t.Errorf("%d statuses were written, want 2:\n%s", len(*written), strings.Join(*written, "\n"))
			}
			status := f.stored(task).Status
			if status.Phase != v1.PhaseRunning || status.Running != replicas || status.Pending != 0 || len(status.Nodes) != int(replicas) {
				t.Errorf("the task ended %s with %d Pods running and %d pending on %d nodes", status.Phase, status.Running, status.Pending, len(status.Nodes))
			}
			if len(f.events.Events) != 0 {
				t.Errorf("%d events were written", len(f.events.Events))
			}
		})
	}
}

// youngTask is a task that has just been created.
func youngTask(name string, replicas int32) *v1.GPUTask {
	task := newTask(name, replicas)
	task.CreationTimestamp = metav1.NewTime(testTime)
	return task
}

func TestAYoungTaskWhosePodsStartAtOnceCostsOneStatus(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int32{1, 20} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			task := f.store(youngTask("train", replicas))
			written := f.recordStatuses()
			f.startAll(task, 5*time.Millisecond)
			if len(*written) != 1 || !strings.HasPrefix((*written)[0], "Running") {
				t.Errorf("want one status, Running; written were:\n%s", strings.Join(*written, "\n"))
			}
			if f.stored(task).Status.StartTime == nil {
				t.Error("the task has no start time")
			}
		})
	}
}

func TestAYoungTaskThatWaitsSaysSoBeforeLong(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(youngTask("train", 2))
	written := f.recordStatuses()
	f.mustSync(task)
	f.observe()
	if len(*written) != 0 || len(f.podNames()) != 2 {
		t.Errorf("want Pods and no status yet, got %v and %v", f.podNames(), *written)
	}
	f.clock.Step(firstStatusDelay)
	f.mustSync(task)
	if len(*written) != 1 || !strings.HasPrefix((*written)[0], "Pending") {
		t.Errorf("want one status, Pending; written were:\n%s", strings.Join(*written, "\n"))
	}
}

func TestASlowStartCostsAStatusNowAndThen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 100))
	written := f.recordStatuses()
	f.startAll(task, time.Second) // 200 s, never unchanged for progressDelay
	const most = 2 + 200/10
	if len(*written) < 10 || len(*written) > most {
		t.Errorf("%d statuses were written, want at most %d:\n%s", len(*written), most, strings.Join(*written, "\n"))
	}
}

func TestWhatMayBeLate(t *testing.T) {
	t.Parallel()
	unschedulable := func(text string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: text}}
		}
	}
	waiting := func(reason string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		}
	}
	tests := map[string]struct {
		minAvailable int32
		// before and after happen to the first Pod.
		before, after func(*corev1.Pod)
		// now is true if what happens after is written at once.
		now bool
	}{
		"a node may":                            {before: func(*corev1.Pod) {}, after: bindPod},
		"one running Pod of several may":        {before: bindPod, after: startPod},
		"the last one may not":                  {minAvailable: 1, before: bindPod, after: startPod, now: true},
		"that no node fits may not":             {before: func(*corev1.Pod) {}, after: unschedulable("no GPU"), now: true},
		"that no node fits for another why may": {before: unschedulable("no GPU"), after: unschedulable("no memory")},
		"that a node fits at last may":          {before: unschedulable("no GPU"), after: bindPod},
		"a missing image may not":               {before: bindPod, after: waiting("ImagePullBackOff"), now: true},
		"a missing image that is there may":     {before: waiting("ImagePullBackOff"), after: waiting("ContainerCreating")},
		"a failure may not":                     {before: startPod, after: func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }, now: true},
		"a success of one of several may":       {before: startPod, after: func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			task := newTask("train", 3)
			task.Spec.MinAvailable = new(tc.minAvailable)
			f.store(task)
			written := f.recordStatuses()
			f.mustSync(task)
			f.observe()
			f.change(task, f.cachedPods(task)[0], tc.before)
			f.clock.Step(progressDelay)
			f.mustSync(task)
			*written = nil
			f.change(task, f.cachedPods(task)[0], tc.after)
			if now := len(*written) > 0; now != tc.now {
				t.Errorf("written at once: %v, want %v", now, tc.now)
			}
			f.clock.Step(progressDelay)
			f.mustSync(task)
			if len(*written) != 1 {
				t.Errorf("%d statuses were written, want 1", len(*written))
			}
		})
	}
}

func TestALateStatusBringsItsTaskBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 2))
	f.recordStatuses()
	f.mustSync(task)
	f.observe()
	f.clock.Step(podEventBatch)
	f.handleUntilQuiet()
	f.change(task, f.cachedPods(task)[0], bindPod)
	f.clock.Step(progressDelay)
	f.handleUntilQuiet()
	if nodes := f.stored(task).Status.Nodes; len(nodes) != 1 {
		t.Errorf("the status still has the nodes %v", nodes)
	}
}

// handleUntilQuiet handles all tasks in the queue, at least one. Time does not pass in the
// meantime.
func (f *fixture) handleUntilQuiet() {
	f.t.Helper()
	for {
		f.processNextWorkItem(f.t.Context())
		if f.queue.Len() == 0 {
			return
		}
	}
}

func TestStatusDebouncer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	debouncer, task := f.statuses.debouncer, cache.NewObjectName("default", "train")
	status := func(running int32) *v1.GPUTaskStatus {
		return &v1.GPUTaskStatus{Running: running, StartTime: new(metav1.NewTime(testTime))}
	}
	var got []time.Duration
	hold := func(running int32, after time.Duration) {
		f.clock.Step(after)
		got = append(got, debouncer.delay(task, status(running), progressDelay, maxProgressDelay))
	}
	hold(1, 0)
	hold(1, time.Second)                 // unchanged: the delay continues
	hold(2, time.Second/2)               // it starts over
	hold(3, 7*time.Second+time.Second/2) // up to the limit
	hold(4, time.Second)
	debouncer.forget(task)
	hold(5, time.Second)
	want := []time.Duration{progressDelay, time.Second, progressDelay, time.Second, 0, progressDelay}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("waiting times (-want +got):\n%s", diff)
	}
}
