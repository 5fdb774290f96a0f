// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// inQueues returns a cluster whose namespace default may use queue vision, which guarantees 4 GPUs and allows limit.
func inQueues(t *testing.T, limit int32, change ...func(*v1.GPUQueue)) *fixture {
	t.Helper()
	f := fragmented(t) // 4 tasks of the namespace hold 2 GPUs each
	change = append([]func(*v1.GPUQueue){status(4, 1, "1.20")}, change...)
	f.add(newNamespace("default", "vision"), newNamespace("batch", "batch"), newQueue("vision", "", "vision", 4, limit, change...))
	return f
}

// borrows runs a task of another namespace, in a queue without guarantee, on the last six GPUs of each H100 node.
func (f *fixture) borrows(change ...func(*v1.GPUTask)) {
	f.t.Helper()
	f.borrowsBelow("", change...)
}

// borrowsBelow does so in a queue below a parent.
func (f *fixture) borrowsBelow(parent string, change ...func(*v1.GPUTask)) {
	f.t.Helper()
	f.add(newQueue("batch", parent, "batch", 0, 0))
	for i := range 4 {
		f.runs(newTask(fmt.Sprintf("filler-%d", i), "h100", "6", append(change, func(task *v1.GPUTask) { task.Namespace = "batch" })...), fmt.Sprintf("h100-%d", i), 2, 3, 4, 5, 6, 7)
	}
}

func TestExplainWithQueues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, golden string
		make         func(t *testing.T) *fixture
	}{
		{"a task whose queue is at its limit", "explain-limit", func(t *testing.T) *fixture {
			t.Helper()
			f := inQueues(t, 12)
			f.waits(needy(), 0)
			return f
		}},
		{"a task that is larger than the limit of its queue", "explain-limit-never", func(t *testing.T) *fixture {
			t.Helper()
			f := inQueues(t, 4)
			f.waits(needy(), 0)
			return f
		}},
		{"a task that may not use its queue any more", "explain-refused", func(t *testing.T) *fixture {
			t.Helper()
			f := inQueues(t, 0, func(queue *v1.GPUQueue) { queue.Spec.Priorities = []string{"high"} })
			f.waits(needy(), 0)
			return f
		}},
		{"a task behind others of its queue, of other controllers, too", "explain-line", func(t *testing.T) *fixture {
			t.Helper()
			f := inQueues(t, 0)
			f.add(newQueue("batch", "", "batch", 0, 0))
			f.waits(newTask("elsewhere", "h100", "8", func(task *v1.GPUTask) { task.Namespace = "batch" }), 100)
			f.waits(newTask("first", "h100", "8", func(task *v1.GPUTask) { task.Spec.MaxRuntimeSeconds = new(int64(600)) }), 0)
			f.add(foreignPod("default", "notebook", 8, map[string]string{v1.LabelQueue: "vision"}))
			f.estimate("notebook", between(2, 60, 60, 70, "first"))
			f.expects(needy(), 0, between(3, 130, 140, 160, "small-0"))
			return f
		}},
		{"a task of a queue below its guarantee takes back what others have borrowed", "explain-reclaims", func(t *testing.T) *fixture {
			t.Helper()
			f := inQueues(t, 0, func(queue *v1.GPUQueue) { queue.Spec.Resources[0].Guaranteed = 16 })
			f.borrows()
			f.waits(newTask("big", "h100", "6"), 0)
			return f
		}},
		{"so it does if the parent of both may hold no more, though there are free GPUs", "explain-reclaims-below", func(t *testing.T) *fixture {
			t.Helper()
			f := inQueues(t, 0, func(queue *v1.GPUQueue) { queue.Spec.Parent, queue.Spec.Resources[0].Guaranteed = "all", 16 })
			f.add(newQueue("all", "", "", 32, 32))
			f.borrowsBelow("all")
			f.waits(newTask("big", "a100", "2"), 0)
			return f
		}},
		{"a task of a higher priority preempts none of other queues", "explain-not-reclaimed", func(t *testing.T) *fixture {
			t.Helper()
			f := inQueues(t, 0)
			f.borrows()
			f.waits(newTask("big", "h100", "6", func(task *v1.GPUTask) { task.Spec.Priority = "high" }), 100)
			return f
		}},
		{"a task whose place is being cleared", "explain-nominated", func(t *testing.T) *fixture {
			t.Helper()
			f := inQueues(t, 0)
			f.expects(needy(), 0, between(1, 1, 1, 2, ""))
			f.change(f.kube.Tracker(), corev1.SchemeGroupVersion.WithResource("pods"), "big", func(object runtime.Object) {
				object.(*corev1.Pod).Status.NominatedNodeName = "h100-0"
			})
			return f
		}},
		{"a task that runs", "explain-queue-running", func(t *testing.T) *fixture {
			t.Helper()
			f := inQueues(t, 16)
			f.runs(newTask("big", "h100", "4"), "h100-3", 2, 3, 4, 6)
			return f
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.make(t).golden(test.golden, "explain", "big")
		})
	}
}

func TestExplainSaysThatQueuesAreNotKnown(t *testing.T) {
	t.Parallel()
	f := inQueues(t, 4)
	f.waits(needy(), 0)
	f.refuse("gpuqueues", apierrors.NewForbidden(schema.GroupResource{Group: v1.GroupName, Resource: "gpuqueues"}, "", nil), nil)
	const want = "GPUQueues are not considered: you may not list gpuqueues (ask for the ClusterRole gpuqueues-view)."
	if err := f.run("explain", "big"); err != nil || !strings.Contains(f.errOut.String(), want) || !strings.Contains(f.out.String(), "it fits after 1 move") {
		t.Errorf("error %v\n%s%s", err, f.out.String(), f.errOut.String())
	}
}

func TestExplainSaysWhyATaskDoesNotRunAnyMore(t *testing.T) {
	t.Parallel()
	f := inQueues(t, 0)
	f.waits(needy(func(task *v1.GPUTask) {
		task.Status.LastInterruption = &v1.Interruption{Time: ago(time.Minute), Reason: v1.InterruptionPreempted, Message: "task high (priority 100) needs its place"}
	}), 0)
	if err := f.run("explain", "big"); err != nil || !strings.Contains(f.out.String(), "preempted at 2026-11-21 11:59:00 UTC: task high (priority 100) needs its place") {
		t.Errorf("error %v\n%s", err, f.out.String())
	}
}

func TestExplainWithoutRightsShowsTheEstimateOfTheStatus(t *testing.T) {
	t.Parallel()
	f := inQueues(t, 0)
	f.waits(needy(func(task *v1.GPUTask) { task.Status.EstimatedStart = between(1, 60, 70, 80, "small-0") }), 0)
	f.refuse("nodes", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil), nil)
	if err := f.run("explain", "big"); err != nil || !strings.Contains(f.out.String(), "between 13:00 and 13:20, likely 13:10 UTC, after small-0 ends") {
		t.Errorf("error %v\n%s", err, f.out.String())
	}
}

func TestWhatIfWithQueues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, golden, spec string
		make               func(t *testing.T) *fixture
	}{
		{"the queue would exceed its limit", "whatif-limit", `gpu: h100, gpu-amount: "8", queue: vision`, func(t *testing.T) *fixture {
			t.Helper()
			return inQueues(t, 12)
		}},
		{"the queue does not accept the namespace", "whatif-refused", `gpu: h100, queue: batch`, func(t *testing.T) *fixture {
			t.Helper()
			f := inQueues(t, 0)
			f.add(newQueue("batch", "", "batch", 0, 0))
			return f
		}},
		{"an equal task waits already", "whatif-equal", `gpu: h100, gpu-amount: "8"`, func(t *testing.T) *fixture {
			t.Helper()
			f := inQueues(t, 0)
			f.expects(newTask("twin", "h100", "8"), 0, between(1, 130, 140, 160, "small-0"))
			f.expects(newTask("longer", "h100", "8", func(task *v1.GPUTask) { task.Spec.MaxRuntimeSeconds = new(int64(86_400)) }), 0, between(2, 600, 600, 600, ""))
			return f
		}},
		{"the cluster's default PriorityClass counts", "whatif-default-class", `gpu: h100, gpu-amount: "2"`, func(t *testing.T) *fixture {
			t.Helper()
			f := inQueues(t, 0, func(queue *v1.GPUQueue) { queue.Spec.Priorities = []string{"usual"} })
			f.add(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 7, GlobalDefault: true})
			return f
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := test.make(t)
			f.env.In = strings.NewReader(fmt.Sprintf(manifest, "new", test.spec))
			f.golden(test.golden, "whatif", "-f", "-")
		})
	}
}

func TestExplainKnowsWhenTasksWithAMaximumRuntimeEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(newNode("h100-0", "leaf-0", "h100", "training", 8))
	f.runs(newTask("long", "h100", "8", func(task *v1.GPUTask) {
		task.Spec.MaxRuntimeSeconds, task.Spec.ActiveDeadlineSeconds = new(int64(5*3600)), new(int64(10*3600))
	}), "h100-0", 0, 1, 2, 3, 4, 5, 6, 7)
	list, err := f.tasks.FalldioV1().GPUTasks("default").Get(t.Context(), "long", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list.Status.RunningSince, list.Status.PastRuntimeSeconds = new(ago(30*time.Minute)), 3600
	if _, err := f.tasks.FalldioV1().GPUTasks("default").Update(t.Context(), list, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.waits(newTask("big", "h100", "4"), 0)
	if err := f.run("explain", "big", "-o", "jsonpath={.outlook.at}"); err != nil || f.out.String() != "2026-11-21T15:30:00Z" {
		t.Errorf("error %v, it ends at %s, want 15:30: 4 hours after it ran again", err, f.out.String())
	}
}
