// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

const slice = "falldio.com/mig-1g.10gb"

// dividedNode adds a node with GPUs of two slices each; healthy is how many of the slices the
// kubelet offers.
func (c *cluster) dividedNode(name string, gpus, healthy int) {
	c.Helper()
	c.node(name, gpus, func(n *corev1.Node) {
		delete(n.Status.Allocatable, v1.ResourceGPU)
		n.Status.Allocatable[slice] = *resource.NewQuantity(int64(healthy), resource.DecimalSI)
	})
	c.relist(name, func(list []inventory.GPU) {
		for i := range list {
			list[i].MIG = true
			for number := range 2 {
				list[i].Slices = append(list[i].Slices, inventory.Slice{UUID: sliceUUID(name, i, number), Profile: "1g.10gb"})
			}
		}
	})
}

func sliceUUID(node string, gpu, number int) string {
	return fmt.Sprintf("MIG-%s-%d-%d", node, gpu, number)
}

// runOnSlices adds a task of one Pod that has run on slices for ten minutes.
func (c *cluster) runOnSlices(name, node string, uuids ...string) {
	c.Helper()
	task := c.addForSlices(name, len(uuids), v1.PhaseRunning)
	pod := task.Pods[0]
	c.bind(pod, node, nil)
	pod.Status.Phase = corev1.PodRunning
	assignment := inventory.Assignment{}
	assignment.Add(v1.ContainerName, slice, uuids...)
	text, err := assignment.String()
	if err != nil {
		c.Fatal(err)
	}
	pod.Annotations = map[string]string{inventory.AssignmentAnnotation: text}
}

func (c *cluster) addForSlices(name string, count int, phase v1.GPUTaskPhase) *clusterview.Task {
	c.Helper()
	task := c.add(name, fmt.Sprint(count), phase, 1)
	task.Spec.GPUProfile = "1g.10gb"
	before := task.Pods[0]
	pod, err := gputask.NewPod(task.GPUTask, 0, 0, gputask.PodDefaults{})
	if err != nil {
		c.Fatal(err)
	}
	before.Spec.Containers = pod.Spec.Containers
	return task
}

func TestATaskLeavesSlicesOfABrokenGPU(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.options.Unhealthy = true
	c.dividedNode("node1", 2, 2) // the kubelet no longer offers those of GPU 1
	c.dividedNode("node2", 1, 2)
	c.runOnSlices("a", "node1", sliceUUID("node1", 1, 0), sliceUUID("node1", 1, 1))
	c.runOnSlices("b", "node1", sliceUUID("node1", 0, 0))
	c.breaks("node1", 1)
	plan, report := Propose(&c.Objects, &c.options)
	if plan == nil {
		t.Fatalf("no plan: %+v", report)
	}
	if plan.Spec.Goal != v1.GoalUnhealthyGPUs || len(plan.Spec.Moves) != 1 {
		t.Fatalf("got %+v", plan.Spec)
	}
	move := plan.Spec.Moves[0]
	if want := "GPU 1 of node node1 is unhealthy: XID79"; move.Pod != "a" || move.To.Node != "node2" || move.Reason != want {
		t.Errorf("move of %s to %s because %q, want a to node2 because %q", move.Pod, move.To.Node, move.Reason, want)
	}
	// Two sevenths of a GPU for ten minutes.
	if move.GPUs != "0.28" || move.LostGPUSeconds != 168 {
		t.Errorf("it has %q GPUs and loses %d GPU-seconds, want 0.28 and 168", move.GPUs, move.LostGPUSeconds)
	}
}

func TestRoomIsMadeForSlices(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, name := range []string{"node1", "node2"} {
		c.dividedNode(name, 2, 4)
		c.runOnSlices("on-"+name, name, sliceUUID(name, 0, 0), sliceUUID(name, 1, 0))
	}
	c.addForSlices("big", 4, v1.PhasePending)
	plan, report := Propose(&c.Objects, &c.options)
	if plan == nil {
		t.Fatalf("no plan: %+v", report)
	}
	if plan.Spec.Goal != v1.GoalPendingTask || len(plan.Spec.Moves) != 1 || len(plan.Spec.Places) != 1 || plan.Spec.Moves[0].From.Node != plan.Spec.Places[0].Node {
		t.Errorf("got %+v", plan.Spec)
	}
	if want := "GPUTask default/big fits nowhere and gets its MIG slices"; !strings.HasPrefix(plan.Spec.Reason, want) {
		t.Errorf("reason %q, want %q", plan.Spec.Reason, want)
	}
}
