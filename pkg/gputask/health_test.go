// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// kstatus is the health of an object by the rules of kstatus for objects of any kind.
func kstatus(task *v1.GPUTask, status *v1.GPUTaskStatus) string {
	switch {
	case meta.IsStatusConditionTrue(status.Conditions, "Stalled"):
		return "Failed"
	case status.ObservedGeneration != task.Generation || meta.IsStatusConditionTrue(status.Conditions, "Reconciling"):
		return "InProgress"
	default:
		return "Current"
	}
}

func TestToolsThatKnowNothingAboutTasksLearnTheirHealth(t *testing.T) {
	t.Parallel()
	task := func() taskBuilder { return makeTask("train").backoffLimit(0) }
	tests := map[string]struct {
		task taskBuilder
		pods []*corev1.Pod
		want string
	}{
		"a new task":            {task: task(), want: "InProgress"},
		"a task that waits":     {task: task().dependsOn(v1.Dependency{Name: "other"}), want: "InProgress"},
		"a task that runs":      {task: task(), pods: pods(task().pod(0, 0).running("a")), want: "Current"},
		"a task that succeeded": {task: task(), pods: pods(task().pod(0, 0).succeeded()), want: "Current"},
		"a suspended task":      {task: task().suspended(), want: "Current"},
		"a task that failed":    {task: task(), pods: pods(task().pod(0, 0).failed(time.Second)), want: "Failed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// As it was while it started, and as it is now.
			started, err := Decide(input(test.task, nil))
			if err != nil {
				t.Fatal(err)
			}
			test.task.Status = started.Status
			plan, err := Decide(input(test.task, test.pods))
			if err != nil {
				t.Fatal(err)
			}
			if got := kstatus(test.task.GPUTask, &plan.Status); got != test.want {
				t.Errorf("it counts as %s, want %s: %+v", got, test.want, plan.Status.Conditions)
			}
		})
	}
}
