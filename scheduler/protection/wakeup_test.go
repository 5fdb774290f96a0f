// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package protection

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"falldio.github.io/gpu-controller/pkg/leadership"
	"falldio.github.io/gpu-controller/scheduler/planner"
)

// cpuPod returns a Pod that wants so many CPUs.
func cpuPod(name, node, cpus string, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{
			NodeName: node, SchedulerName: corev1.DefaultSchedulerName, Priority: &priority,
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}}}},
		},
	}
}

// onceBeforeFilters is a plugin that calls a function in the first scheduling cycle, after the snapshot was taken.
type onceBeforeFilters struct {
	once sync.Once
	call func()
}

func (*onceBeforeFilters) Name() string                                 { return "OnceBeforeFilters" }
func (*onceBeforeFilters) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (p *onceBeforeFilters) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p.once.Do(p.call)
	return nil, nil
}

// newScheduler returns kube-scheduler with its default profile and one more plugin. It runs until the test ends.
func newScheduler(t *testing.T, client *fake.Clientset, more *onceBeforeFilters, before func(*scheduler.Scheduler)) *scheduler.Scheduler {
	t.Helper()
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := &defaults.Profiles[0]
	profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled, config.Plugin{Name: more.Name()})
	informers := scheduler.NewInformerFactory(client, 0, nil)
	running, err := scheduler.New(t.Context(), client, informers, nil, func(string) events.EventRecorderLogger { return events.NewFakeRecorder(1000) },
		scheduler.WithProfiles(*profile),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			more.Name(): func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return more, nil }, //nolint:unparam // the type of a factory
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	before(running)
	informers.Start(t.Context().Done())
	if err := running.WaitForHandlersSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	go running.Run(t.Context())
	return running
}

// eventually waits until a condition holds, and reports whether it did in time.
func eventually(ctx context.Context, condition func() bool) bool {
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return condition(), nil }) == nil
}

// The victims are gone, and the events of it are handled, before kube-scheduler begins to delete them. No further event
// wakes the preemptor.
func TestAPreemptorIsRetriedIfItsVictimsAreGoneAlready(t *testing.T) {
	t.Parallel()
	ctx, pods := t.Context(), []*corev1.Pod{cpuPod("a", "node", "2", 1), cpuPod("b", "node", "2", 1)}
	client := fake.NewClientset(pods[0], pods[1], &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("9")}},
	})
	bound := make(chan struct{})
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		close(bound)
		return true, nil, nil
	})

	var running *scheduler.Scheduler
	waits := func(name string) func() bool {
		return func() bool {
			return slices.ContainsFunc(running.SchedulingQueue.UnschedulablePods(), func(p *corev1.Pod) bool { return p.Name == name })
		}
	}
	deleting := &onceBeforeFilters{call: func() {
		for _, pod := range pods {
			if err := client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
		last := cpuPod("last", "", "1", 1) // its event is handled after those of the victims
		last.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "closed"}}
		if _, err := client.CoreV1().Pods(last.Namespace).Create(ctx, last, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		if !eventually(ctx, waits(last.Name)) {
			t.Error("the scheduler does not see what has happened")
		}
	}}
	running = newScheduler(t, client, deleting, func(running *scheduler.Scheduler) {
		for _, plugin := range running.Profiles[corev1.DefaultSchedulerName].EnqueueExtensions() {
			if preempting, found := plugin.(*defaultpreemption.DefaultPreemption); found {
				stop := preempting.Executor.PreemptPod
				preempting.Executor.PreemptPod = func(ctx context.Context, c preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *corev1.Pod, plugin string) (bool, error) {
					if !eventually(ctx, waits("preemptor")) {
						t.Error("the preemptor does not wait for its victims")
					}
					return stop(ctx, c, preemptor, victim, plugin)
				}
			}
		}
		Protect(running, planner.NewShared(leadership.Always(), "test"))
	})
	if _, err := client.CoreV1().Pods("default").Create(ctx, cpuPod("preemptor", "", "4", 9), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-bound:
	case <-time.After(20 * time.Second):
		_, queues := running.SchedulingQueue.PendingPods()
		t.Errorf("the preemptor gets no node, which has room; %s", queues)
	}
}

// cached is a cache that has some Pods.
type cached []*corev1.Pod

func (c cached) GetPod(pod *corev1.Pod) (*corev1.Pod, error) {
	if slices.Contains(c, pod) {
		return pod, nil
	}
	return nil, errors.New("it is not in the cache")
}

// candidate is a node with victims.
type candidate struct {
	preemption.Candidate
	victims []*corev1.Pod
}

func (c candidate) Victims() *extenderv1.Victims { return &extenderv1.Victims{Pods: c.victims} }

// An attempt that sees victims that are gone would preempt other Pods.
func TestAPreemptorWaitsForVictimsThatAreInTheCache(t *testing.T) {
	t.Parallel()
	victim, other := cpuPod("victim", "node", "1", 1), cpuPod("other", "node", "1", 1)
	for name, test := range map[string]struct {
		cache          cached
		inMemory, want bool
	}{
		"it is in the cache":                     {cached{victim}, false, false},
		"it is in the cache and was never bound": {cached{victim}, true, true},
		"it is gone":                             {nil, false, true},
		"it is gone, and another one is not":     {cached{other}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stop := orRetried(test.cache, func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *corev1.Pod, string) (bool, error) {
				return test.inMemory, nil
			})
			if retried, err := stop(t.Context(), candidate{victims: []*corev1.Pod{other, victim}}, nil, victim, ""); retried != test.want || err != nil {
				t.Errorf("the preemptor is tried again at once: %t, want %t; error %v", retried, test.want, err)
			}
		})
	}
}
