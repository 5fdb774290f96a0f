// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

func TestWhetherOtherNodesAreLeftForAPodThatNodesRefuse(t *testing.T) {
	t.Parallel()
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{v1.LabelGPUModel: "h100"}}}
		n.Status.Allocatable = corev1.ResourceList{v1.ResourceGPU: resource.MustParse("8"), corev1.ResourceCPU: resource.MustParse("8")}
		change(n)
		return n
	}
	tests := map[string]struct {
		node *corev1.Node
		want bool
	}{
		"one that is as good":           {node(func(*corev1.Node) {}), true},
		"one that has refused the task": {node(func(n *corev1.Node) { n.Name = "broken" }), false},
		"one with other GPUs":           {node(func(n *corev1.Node) { n.Labels[v1.LabelGPUModel] = "a100" }), false},
		"one with too few GPUs":         {node(func(n *corev1.Node) { n.Status.Allocatable[v1.ResourceGPU] = resource.MustParse("1") }), false},
		"one that is cordoned":          {node(func(n *corev1.Node) { n.Spec.Unschedulable = true }), false},
		"one with a taint of its own": {node(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "down", Effect: corev1.TaintEffectNoSchedule}}
		}), false},
		"one that is only not preferred": {node(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule}}
		}), true},
	}
	task := newTask("train", 1)
	task.Spec.GPU, task.Spec.GPUAmount = "h100", "2"
	pod, err := gputask.NewPod(task, 0, 0, gputask.PodDefaults{Image: "cuda"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if err := f.kube.Tracker().Add(tc.node); err != nil {
				t.Fatal(err)
			}
			if got := f.otherNodes(t.Context(), pod, []string{"broken"}); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestNodesThatAreNotKnownMayBeLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.kube.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("down") })
	if !f.otherNodes(t.Context(), &corev1.Pod{}, nil) {
		t.Error("a task fails because the API server does not answer")
	}
}

func TestWhatAPodWasEvictedFor(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "own"}}
	for want, test := range map[v1.InterruptionReason]struct {
		cordoned bool
		moving   types.UID
	}{
		v1.InterruptionMoved:   {cordoned: true, moving: "uid-of-task"},
		v1.InterruptionDrained: {cordoned: true},
		v1.InterruptionEvicted: {},
	} {
		f := newFixture(t)
		f.rescheduling = &recordedRescheduling{moving: test.moving}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: corev1.NodeSpec{Unschedulable: test.cordoned}}
		if err := f.kube.Tracker().Add(node); err != nil {
			t.Fatal(err)
		}
		if got := f.evictedFor(t.Context(), "uid-of-task", pod); got != want {
			t.Errorf("it was %s, want %s", got, want)
		}
	}
}

func TestAnEvictionFromANodeThatHasGoneIsOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if got := f.evictedFor(t.Context(), "uid-of-task", &corev1.Pod{Spec: corev1.PodSpec{NodeName: "gone"}}); got != v1.InterruptionEvicted {
		t.Errorf("it was %s", got)
	}
}
