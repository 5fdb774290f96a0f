// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// needy returns the task that the explain tests ask about.
func needy(change ...func(*v1.GPUTask)) *v1.GPUTask { return newTask("big", "h100", "8", change...) }

func TestExplain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, golden string
		make         func(*fixture)
		args         []string
	}{
		{"a task that fits after a move names it and its cost", "explain-moves", func(f *fixture) { f.waits(needy(), 0) }, nil},
		{"a gang in one leaf", "explain-gang", func(f *fixture) {
			f.waits(needy(replicas(2), func(task *v1.GPUTask) {
				task.Spec.Topology = &v1.Topology{Level: "leaf", Mode: v1.TopologyRequired}
				task.Spec.NodePool, task.Spec.CPU, task.Spec.Memory, task.Spec.GPUMemory = "training", "16", "64Gi", "80G"
			}), 0)
		}, nil},
		{"tasks of a higher priority are ahead", "explain-queue", func(f *fixture) {
			f.waits(newTask("urgent", "a100", "8", func(task *v1.GPUTask) { task.Spec.Priority = "high" }), 100)
			f.waits(newTask("older", "a100", "8", func(task *v1.GPUTask) { task.CreationTimestamp = ago(2 * time.Hour) }), 0)
			f.waits(needy(), 0)
			f.waits(newTask("younger", "a100", "8", func(task *v1.GPUTask) { task.CreationTimestamp = ago(time.Minute) }), 0)
		}, nil},
		{"a task that would preempt others", "explain-preempts", func(f *fixture) {
			f.waits(needy(func(task *v1.GPUTask) { task.Spec.Priority = "high" }), 100)
		}, nil},
		{"a task that never fits", "explain-never", func(f *fixture) { f.waits(newTask("big", "h100", "16"), 0) }, nil},
		{"a task that fits now", "explain-now", func(f *fixture) { f.waits(newTask("big", "h100", "4"), 0) }, nil},
		{"a task that waits for others", "explain-dependencies", func(f *fixture) {
			f.add(newTask("prepare", "h100", "1"), needy(func(task *v1.GPUTask) {
				task.Status = v1.GPUTaskStatus{Phase: v1.PhaseWaiting, Message: `waiting for GPUTask "prepare" to succeed`}
				task.Spec.DependsOn = []v1.Dependency{{Name: "prepare"}, {Name: "nobody", Condition: v1.DependencyRunning}, {Name: "small-0", Condition: v1.DependencyRunning}}
			}))
		}, nil},
		{"a task that is suspended", "explain-suspended", func(f *fixture) {
			f.add(needy(func(task *v1.GPUTask) {
				task.Spec.Suspend, task.Status = new(true), v1.GPUTaskStatus{Phase: v1.PhaseSuspended, Message: "suspended"}
			}))
		}, nil},
		{"a task whose Pods a quota refuses", "explain-quota", func(f *fixture) {
			f.add(needy(func(task *v1.GPUTask) {
				task.Status.Conditions = []metav1.Condition{{Type: v1.ConditionPodsCreated, Status: metav1.ConditionFalse, Message: "exceeded quota: gpus"}}
			}))
		}, nil},
		{"a task that the controller has not seen", "explain-new", func(f *fixture) {
			f.add(needy(func(task *v1.GPUTask) { task.Status = v1.GPUTaskStatus{} }))
		}, nil},
		{"a task that runs and may not be moved", "explain-running", func(f *fixture) {
			f.runs(newTask("big", "h100", "4", func(task *v1.GPUTask) {
				task.Spec.Rescheduling = &v1.Rescheduling{Policy: v1.ReschedulingNever}
			}), "h100-3", 2, 3, 4, 6)
		}, nil},
		{"a task that has ended", "explain-finished", func(f *fixture) {
			f.add(needy(func(task *v1.GPUTask) {
				task.Status = v1.GPUTaskStatus{Phase: v1.PhaseFailed, Message: "3 failures: exit code 1"}
			}))
		}, nil},
		{"in colours", "explain-colours", func(f *fixture) { f.waits(needy(), 0) }, []string{"--color=always"}},
		{"as JSON", "explain-json", func(f *fixture) { f.waits(needy(), 0) }, []string{"-o", "json"}},
		{"as YAML", "explain-yaml", func(f *fixture) { f.waits(needy(), 0) }, []string{"-o", "yaml"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := fragmented(t)
			test.make(f)
			f.golden(test.golden, append([]string{"explain", "big"}, test.args...)...)
		})
	}
}

func TestATaskThatHasEndedKeepsItsPriority(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	task := newTask("over", "h100", "1", func(task *v1.GPUTask) {
		task.Spec.Priority, task.Status = "high", v1.GPUTaskStatus{Phase: v1.PhaseSucceeded, Message: "1 Pod succeeded"}
	})
	pod := podOf(task, 0, 100)
	pod.Spec.NodeName, pod.Status.Phase = "h100-0", corev1.PodSucceeded
	f.add(task, pod)
	if err := f.run("explain", "over"); err != nil {
		t.Fatal(err)
	}
	if got := f.out.String(); !strings.Contains(got, "high (100)") {
		t.Errorf("it says\n%s", got)
	}
}

func TestExplainKnowsWhenTasksWithADeadlineEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(newNode("h100-0", "leaf-0", "h100", "training", 8))
	f.runs(newTask("long", "h100", "4", func(task *v1.GPUTask) { task.Spec.ActiveDeadlineSeconds = new(int64(3 * 3600)) }), "h100-0", 0, 1, 2, 3)
	f.runs(newTask("short", "h100", "2", func(task *v1.GPUTask) { task.Spec.ActiveDeadlineSeconds = new(int64(2 * 3600)) }), "h100-0", 4, 5)
	f.waits(newTask("big", "h100", "4"), 0)
	f.golden("explain-ends", "explain", "big")
}

func TestExplainCountsWhatIsReserved(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(newNode("h100-0", "leaf-0", "h100", "training", 8, broken(7), reserves(
		reservation.Reservation{Plan: "p", Pod: "default/other", Kind: reservation.Start, GPUs: []string{uuidOf("h100-0", 0), uuidOf("h100-0", 1), uuidOf("h100-0", 2), uuidOf("h100-0", 3)}, Until: testTime.Add(time.Minute)},
		reservation.Reservation{Plan: "p", Pod: "default/gone", Kind: reservation.Start, GPUs: []string{uuidOf("h100-0", 4)}, Until: testTime.Add(-time.Minute)},
	)))
	f.waits(newTask("big", "h100", "4"), 0)
	f.golden("explain-reserved", "explain", "big")
	// The reservation is for the task itself.
	f.waits(newTask("other", "h100", "4"), 0)
	if err := f.run("explain", "other"); err != nil || !strings.Contains(f.out.String(), "there is room for it now") {
		t.Errorf("other: %v\n%s", err, f.out.String())
	}
}

func TestExplainNamesThePlanForTheTask(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	f.waits(needy(), 0)
	f.add(newPlan("make-room-big-1"))
	f.golden("explain-plan", "explain", "big")
}

func TestExplainSaysThatAPlanMakesRoomThoughItsPlacesAreTaken(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	f.waits(needy(), 0)
	f.add(newPlan("make-room-big-1", executing))
	if err := f.run("explain", "big"); err != nil || !strings.Contains(f.out.String(), ": MovePlan make-room-big-1 makes room for it\n") {
		t.Errorf("%v\n%s", err, f.out.String())
	}
}

func TestExplainTellsWhatTheTaskSaysToWhoMayNotSeeTheCluster(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	f.waits(needy(), 0)
	f.kube.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("ask your administrator"))
	})
	f.golden("explain-forbidden", "explain", "big")
	f.golden("explain-forbidden-running", "explain", "small-0")
}

func TestExplainOfNoTaskNamesTheNamespace(t *testing.T) {
	t.Parallel()
	err := fragmented(t).run("explain", "nobody", "-n", "team-a")
	if err == nil || err.Error() != `there is no task "nobody" in namespace team-a` {
		t.Errorf("error: %v", err)
	}
}
