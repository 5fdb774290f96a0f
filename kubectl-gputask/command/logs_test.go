// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// finishAfter lets a task and its Pods succeed when their logs have been asked for some times.
func (f *fixture) finishAfter(requests int, name string, pods ...string) {
	asked := 0
	f.kube.PrependReactor("get", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "log" {
			return false, nil, nil
		}
		if asked++; asked != requests {
			return false, nil, nil
		}
		for _, pod := range pods {
			f.change(f.kube.Tracker(), corev1.SchemeGroupVersion.WithResource("pods"), pod, func(object runtime.Object) {
				object.(*corev1.Pod).Status.Phase = corev1.PodSucceeded
			})
		}
		f.change(f.tasks.Tracker(), gputasks(), name, func(object runtime.Object) {
			object.(*v1.GPUTask).Status.Phase = v1.PhaseSucceeded
		})
		return false, nil, nil
	})
}

func gputasks() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: v1.GroupName, Version: v1.GroupVersion.Version, Resource: "gputasks"}
}

// change changes an object in a tracker.
func (f *fixture) change(tracker clienttesting.ObjectTracker, resource schema.GroupVersionResource, name string, apply func(runtime.Object)) {
	object, err := tracker.Get(resource, "default", name)
	if err == nil {
		object = object.DeepCopyObject()
		apply(object)
		err = tracker.Update(resource, object, "default")
	}
	if err != nil {
		f.t.Error(err)
	}
}

func TestLogsAreFollowedUntilTheTaskIsFinished(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	f.started("big-0", "big-1")
	f.finishAfter(6, "big", "big-0", "big-1")
	if err := f.run("logs", "big", "-f"); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"big-0 | fake logs\n", "big-1 | fake logs\n"} {
		if got := strings.Count(f.out.String(), line); got != 1 {
			t.Errorf("%q was printed %d times, want once:\n%s", line, got, f.out.String())
		}
	}
}

func TestFollowingLogsEndsWithCtrlC(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	f.started("big-0")
	ctx, cancel := context.WithCancel(t.Context())
	f.kube.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		return false, nil, nil
	})
	if err := f.runWith(ctx, "logs", "big", "-f"); !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
}

func TestTheNumberOfLogsFollowedAtTheSameTimeIsLimited(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	f.waits(newTask("crowd", "h100", "1", replicas(12)), 0)
	want := "--follow would stream the logs of 12 Pods, but the limit is 5: choose Pods with --index, or raise the limit with --max-log-requests=12"
	if got := errorText(f.run("logs", "crowd", "-f")); got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	f.started("crowd-3")
	f.finishAfter(2, "crowd", "crowd-3")
	if err := f.run("logs", "crowd", "-f", "--index", "3"); err != nil || f.out.String() != "fake logs\n" {
		t.Errorf("one of them: error %v, output %q", err, f.out.String())
	}
}

func TestLogsOfSeveralTasks(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	err := f.run("logs", "small-0", "nobody", "small-1", "gputask.falldio.com/small-0")
	if got := errorText(err); got != `there is no task "nobody" in namespace default` {
		t.Errorf("error %q", got)
	}
	if got := f.out.String(); got != "small-0 | fake logs\nsmall-1 | fake logs\n" {
		t.Errorf("printed:\n%s", got)
	}
}

func TestLogsOfAPodOfAnArrayThatDoesNotExistYet(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	f.started("big-0", "big-1")
	f.change(f.tasks.Tracker(), gputasks(), "big", func(object runtime.Object) {
		object.(*v1.GPUTask).Spec.Completions = new(int32(12))
	})
	for args, want := range map[string]string{
		"logs big --index 5":  "--index=5: this Pod of task big does not exist yet, or no longer; there are Pods with the indexes 0, 1",
		"logs big --index 12": "--index=12: task big has Pods with the indexes 0, 1",
	} {
		if got := errorText(f.run(strings.Fields(args)...)); got != want {
			t.Errorf("%s: error %q, want %q", args, got, want)
		}
	}
}

func TestLogsOfARole(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	f.started("big-0", "big-1")
	for pod, labels := range map[string]map[string]string{
		"big-0": {"falldio.com/role": "launcher", "falldio.com/role-index": "0"},
		"big-1": {"falldio.com/role": "worker", "falldio.com/role-index": "0"},
	} {
		f.change(f.kube.Tracker(), corev1.SchemeGroupVersion.WithResource("pods"), pod, func(object runtime.Object) {
			maps.Copy(object.(*corev1.Pod).Labels, labels)
		})
	}
	if err := f.run("logs", "big", "--role", "worker", "--index", "0", "--prefix"); err != nil || f.out.String() != "big-1 | fake logs\n" {
		t.Errorf("error %v, output %q", err, f.out.String())
	}
	for args, want := range map[string]string{
		"logs big --role learner":          "--role=learner: task big has no Pods of this role; its roles are launcher, worker",
		"logs big --role worker --index 7": "--index=7: task big has Pods with the indexes 0",
	} {
		if got := errorText(f.run(strings.Fields(args)...)); got != want {
			t.Errorf("%s: error %q, want %q", args, got, want)
		}
	}
}
