// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/test/accepted"
)

func TestAHostileTenantTriesEverythingAndLeavesNothing(t *testing.T) {
	t.Parallel()
	begun, attempts := map[string]bool{}, map[string]int{}
	for _, step := range Steps(someOptions(7)) {
		switch step.Verb {
		case VerbAttack:
			if begun[step.Name] {
				t.Errorf("%s is created twice", step.Name)
			}
			if step.Namespace != "mallory" || (step.Task == nil) == (step.Pod == nil) {
				t.Errorf("%s is by task %v and Pod %v", &step, step.Task, step.Pod)
			}
			begun[step.Name] = true
			attempts[step.Name[:strings.LastIndex(step.Name, "-")]]++
		case VerbEndAttack:
			if !begun[step.Name] {
				t.Errorf("%s ends before it begins", step.Name)
			}
			delete(begun, step.Name)
		}
	}
	if len(begun) > 0 {
		t.Errorf("left behind: %v", begun)
	}
	for _, one := range attacks() {
		if attempts[one.name] == 0 {
			t.Errorf("no attack of ten minutes %s", one.name)
		}
	}
}

// What the schema refuses tests nothing of ours.
func TestHostileTasksReachGPUController(t *testing.T) {
	t.Parallel()
	validator, err := accepted.NewValidator("gputasks")
	if err != nil {
		t.Fatal(err)
	}
	options := someOptions(7)
	options.Duration = time.Minute
	for _, step := range Steps(options) {
		if step.Verb != VerbAttack || step.Task == nil {
			continue
		}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(step.Task)
		if err != nil {
			t.Fatal(err)
		}
		if err := validator.Create(object); err != nil {
			t.Errorf("%s: %v", step.Name, err)
		}
	}
}

func TestATaskThatFillsMemoryIsTooLarge(t *testing.T) {
	t.Parallel()
	task := &v1.GPUTask{Spec: v1.GPUTaskSpec{GPU: "h100", GPUAmount: "1", Template: &corev1.PodTemplateSpec{}}}
	manyVolumes(nil, nil, task)
	plan, err := gputask.Decide(gputask.Input{Task: task, Now: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plan.Status.Message, "is too large") || len(plan.Create) > 0 {
		t.Errorf("%d Pods are created, message %q", len(plan.Create), plan.Status.Message)
	}
}
