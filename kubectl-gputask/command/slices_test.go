// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// divided divides a GPU of a node into slices of some profiles.
func divided(gpu int, profiles ...string) nodeOption {
	return func(node *corev1.Node, listed *inventory.Inventory) {
		one := &listed.GPUs[gpu]
		one.MIG = true
		for i, profile := range profiles {
			one.Slices = append(one.Slices, inventory.Slice{UUID: sliceOf(node.Name, gpu, i), Profile: profile, MemoryMiB: 9728})
			name := v1.MIGResource(profile)
			offered := node.Status.Allocatable[name]
			offered.Add(resource.MustParse("1"))
			node.Status.Allocatable[name] = offered
		}
		whole := node.Status.Allocatable[v1.ResourceGPU]
		node.Status.Allocatable[v1.ResourceGPU] = *resource.NewQuantity(whole.Value()-1, resource.DecimalSI)
	}
}

func sliceOf(node string, gpu, slice int) string {
	return fmt.Sprintf("MIG-%s-%d-%d", node, gpu, slice)
}

// ofProfile makes a task ask for slices.
func ofProfile(profile string) func(*v1.GPUTask) {
	return func(task *v1.GPUTask) { task.Spec.GPUProfile = profile }
}

// runsOnSlices adds a task of one Pod that has been running on slices of a node; which ones, its
// annotation says if they are given.
func (f *fixture) runsOnSlices(name, node, profile, amount string, uuids ...string) {
	f.t.Helper()
	task := newTask(name, "", amount, ofProfile(profile))
	task.Status = v1.GPUTaskStatus{
		Phase: v1.PhaseRunning, Running: 1, Nodes: []string{node}, Message: "running on " + node, StartTime: &task.CreationTimestamp,
		Conditions: []metav1.Condition{{Type: v1.ConditionRunning, Status: metav1.ConditionTrue, Reason: "AllPodsRunning", LastTransitionTime: task.CreationTimestamp}},
	}
	pod := podOf(task, 0, 0)
	pod.Spec.NodeName, pod.Status.Phase, pod.Status.StartTime = node, corev1.PodRunning, &task.CreationTimestamp
	if len(uuids) > 0 {
		given := inventory.Assignment{}
		given.Add(v1.ContainerName, string(v1.MIGResource(profile)), uuids...)
		text, err := given.String()
		if err != nil {
			f.t.Fatal(err)
		}
		pod.Annotations = map[string]string{inventory.AssignmentAnnotation: text}
	}
	f.add(task, pod)
}

// sliced returns a cluster with divided GPUs: h100-0 has two of them before two whole ones, h100-1
// one, and a100-0 has none.
func sliced(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.add(
		newNode("h100-0", "leaf-0", "h100", "training", 4, divided(0, "3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"), divided(1, "1g.10gb", "1g.10gb")),
		newNode("h100-1", "leaf-0", "h100", "training", 1, divided(0, "1g.10gb", "1g.10gb")),
		newNode("a100-0", "", "a100", "", 2),
	)
	f.runsOnSlices("infer", "h100-0", "1g.10gb", "2", sliceOf("h100-0", 0, 2), sliceOf("h100-0", 1, 0))
	f.runsOnSlices("embed", "h100-0", "1g.10gb", "1") // it is not known which one
	f.runsOnSlices("notebook", "h100-1", "1g.10gb", "2", sliceOf("h100-1", 0, 0), sliceOf("h100-1", 0, 1))
	f.runs(newTask("train", "h100", "1"), "h100-0", 2)
	return f
}

func TestSlicesInAllCommands(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, golden, args, in string
		make                   func(*fixture)
	}{
		{"top, with a task that has no Pods yet", "slices-top", "top --metrics=false", "", func(f *fixture) {
			f.add(newTask("later", "", "1", ofProfile("3g.40gb"), func(task *v1.GPUTask) { task.Status.Phase = v1.PhaseSuspended }))
		}},
		{"top as YAML", "slices-top-yaml", "top --metrics=false -o yaml", "", func(*fixture) {}},
		{"a gang of slices that does not fit", "slices-explain", "explain wide", "", func(f *fixture) {
			f.waits(newTask("wide", "", "2", ofProfile("1g.10gb"), replicas(2)), 0)
		}},
		{"slices that fit if others leave", "slices-preempts", "explain urgent", "", func(f *fixture) {
			f.waits(newTask("urgent", "h100", "4", ofProfile("1g.10gb"), func(task *v1.GPUTask) { task.Spec.Priority = "high" }), 100)
		}},
		{"slices that no node has", "slices-never", "explain large", "", func(f *fixture) {
			f.waits(newTask("large", "a100", "1", ofProfile("7g.80gb")), 0)
		}},
		{"a task that runs on slices", "slices-running", "explain infer", "", func(*fixture) {}},
		{"a task that runs on a whole GPU beside divided ones", "slices-beside", "explain train", "", func(*fixture) {}},
		{"a task that would get slices", "slices-whatif", "whatif -f -", `gpuProfile: 2g.20gb`, func(*fixture) {}},
		{"the second of two that ask for the same slice", "slices-whatif-several", "whatif -f -", `gpuProfile: 2g.20gb, replicas: 2`, func(*fixture) {}},
		{"a task that would get a whole GPU beside divided ones", "slices-whatif-beside", "whatif -f -", `gpu: h100`, func(*fixture) {}},
		{"list", "slices-list", "list", "", func(*fixture) {}},
		{"describe", "slices-describe", "describe infer", "", func(*fixture) {}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := sliced(t)
			test.make(f)
			if test.in != "" {
				f.env.In = strings.NewReader(fmt.Sprintf(manifest, "new", test.in))
			}
			f.golden(test.golden, strings.Fields(test.args)...)
		})
	}
}
