// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/filters"
)

func withHostPort(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
}

func nodeWithGPUs(name, count string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("10"),
		v1.ResourceGPU: resource.MustParse(count),
	}
	return node
}

// A Pod that is on its way to a node takes its host port. When it goes without having
// arrived, nothing about the node changes, and the port is free nevertheless.
func TestWhatASeatRefusedEndsWithTheSeat(t *testing.T) {
	f := newFramed(t, []*corev1.Node{nodeWithGPUs("n0", "4")}, nil)
	f.filters.Memory.Follow(filters.Hints{names.NodePorts: nil})
	first, second := pod("first", 1, withHostPort), pod("second", 1, withHostPort)
	f.comes(first, second)
	if decision := f.decide(first); decision.Node != "n0" {
		t.Fatalf("the first Pod got node %q, want n0", decision.Node)
	}
	if decision := f.decide(second); decision.Node != "" {
		t.Fatalf("the second Pod got node %q, whose port is taken", decision.Node)
	}
	f.podDeleted(first)
	if decision := f.decide(second); decision.Node != "n0" {
		t.Errorf("the second Pod got node %q, want n0: its port is free again", decision.Node)
	}
}

// A refusal that has only to do with the node is remembered as long as the node stays as
// it is, and no longer.
func TestRefusalsAreRememberedUntilTheNodeChanges(t *testing.T) {
	taken := at(pod("taken", 0, withHostPort), "n0")
	f := newFramed(t, []*corev1.Node{nodeWithGPUs("n0", "4")}, []*corev1.Pod{taken})
	f.filters.Memory.Follow(filters.Hints{names.NodePorts: nil})
	waiting := pod("waiting", 1, withHostPort)
	f.comes(waiting)
	if decision := f.decide(waiting); decision.Node != "" {
		t.Fatalf("the Pod got node %q, whose port is taken", decision.Node)
	}
	class, info := filters.ClassOf(waiting), f.infos["n0"]
	refusal := f.filters.Memory.Refusal(class, "n0", info.GetGeneration(), f.mirror.Version())
	if refusal == nil || refusal.Plugin != names.NodePorts {
		t.Fatalf("%v is remembered of the node, want what NodePorts refused", refusal)
	}
	f.goes(taken)
	if decision := f.decide(waiting); decision.Node != "n0" {
		t.Errorf("the Pod got node %q, want n0: its port is free", decision.Node)
	}
}

// Tasks that ask for the same differ in their labels, at least in their own names.
func TestTasksThatAskForTheSameLearnFromEachOther(t *testing.T) {
	const noRoom, portTaken = 8, 1
	taken := at(pod("taken", 0, withHostPort), "n0")
	f := newFramed(t, []*corev1.Node{nodeWithGPUs("n0", "4")}, []*corev1.Pod{taken})
	f.filters.Memory.Follow(filters.Hints{names.NodePorts: nil})
	task := func(name string, gpus int) *corev1.Pod {
		return pod(name, gpus, withHostPort, func(p *corev1.Pod) { p.Labels[v1.LabelTask] = "task of " + name })
	}
	for name, gpus := range map[string]int{"no room": noRoom, "the port is taken": portTaken} {
		first, second := task("first, "+name, gpus), task("second, "+name, gpus)
		f.comes(first, second)
		if decision := f.decide(first); decision.Node != "" {
			t.Fatalf("%s: the first task got node %q", name, decision.Node)
		}
		gang, err := f.requestOf(f.registry.Attempt(second.UID))
		if err != nil {
			t.Fatal(err)
		}
		_, failed := f.filters.KnownFailure(f.mirror.Freed(), f.keysOf(f.registry.Attempt(second.UID), gang))
		if want := gpus == noRoom; failed != want {
			t.Errorf("%s: that the second task finds no place is known: %t, want %t", name, failed, want)
		}
		refused := f.filters.Memory.Refusal(filters.ClassOf(second), "n0", f.infos["n0"].GetGeneration(), f.mirror.Version()) != nil
		if want := gpus == portTaken; refused != want {
			t.Errorf("%s: what the node refuses is known for the second task: %t, want %t", name, refused, want)
		}
	}
}
