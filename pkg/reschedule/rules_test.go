// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// inNamespace puts a task and its Pods into another namespace.
func inNamespace(task *clusterview.Task, namespace string) {
	task.Namespace = namespace
	for _, pod := range task.Pods {
		pod.Namespace = namespace
	}
}

// movedPods returns the names of the Pods that a plan moves, sorted.
func movedPods(plan *v1.MovePlan) []string {
	var names []string
	for i := range plan.Spec.Moves {
		names = append(names, plan.Spec.Moves[i].Pod)
	}
	slices.Sort(names)
	return names
}

func TestAPlanThatBreaksANamespacesBudgetIsMadeAnew(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("a", 4)
	c.node("b", 4)
	c.node("spare", 2)
	for _, name := range []string{"x", "y"} { // 10 GPU-minutes each
		c.run(name, "1", "a")
	}
	for _, name := range []string{"v", "w"} { // the same, and dearer
		task := c.run(name, "1", "b")
		inNamespace(task, "other")
		task.Pods[0].Spec.Priority = new(int32(1))
	}
	large := c.wait("large", "4", 1)
	inNamespace(large, "other")
	large.Pods[0].Spec.Priority = new(int32(1))
	plan := c.proposal("", "")
	if diff := cmp.Diff([]string{"x", "y"}, movedPods(plan)); diff != "" {
		t.Fatalf("moves (-want +got):\n%s", diff)
	}
	c.options.GPUMinutesPerHour = 19 // one may move of each namespace
	if plan, report := Propose(&c.Objects, &c.options); plan != nil {
		t.Errorf("moves %v: %+v", movesText(plan), report)
	}
	inNamespace(c.task("w"), "third")
	plan = c.proposal("", "")
	if diff := cmp.Diff([]string{"v", "w"}, movedPods(plan)); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
}

func TestFewMovesThatCostMoreAreBetterThanNone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("a", 4)
	c.node("b", 4)
	c.node("spare", 2)
	for range 2 {
		c.run("cheap"+string(rune('0'+len(c.Tasks))), "1", "a")
	}
	c.savedJustNow()
	c.run("dear", "2", "b")
	c.wait("large", "4", 1)
	if plan := c.proposal("", ""); len(plan.Spec.Moves) != 2 {
		t.Errorf("moves %v", movesText(plan))
	}
	c.options.MaxMoves = 1
	plan := c.proposal("", "")
	if diff := cmp.Diff([]string{"dear"}, movedPods(plan)); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	if plan.Spec.CostGPUSeconds != 2*600+60 {
		t.Errorf("the plan costs %d", plan.Spec.CostGPUSeconds)
	}
}

func TestAGangThatIsInOneLeafStaysInOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("a", 4, inLeaf("one"))
	c.node("b", 4, inLeaf("one"))
	c.node("c", 2, inLeaf("two"))
	c.node("d", 2, inLeaf("three"))
	pair := c.run("pair", "2", "a", "b")
	for _, pod := range pair.Pods {
		pod.Annotations[v1.AnnotationTopologyLevel] = "leaf"
	}
	c.wait("large", "4", 1)
	// It would have to go to two leaves. It can shrink to one node of its own leaf.
	plan := c.proposal("", "")
	if diff := cmp.Diff([]string{"0 pair-0: a -> b", "0 pair-1: b -> b"}, movesText(plan)); diff != "" {
		if diff = cmp.Diff([]string{"0 pair-0: a -> a", "0 pair-1: b -> a"}, movesText(plan)); diff != "" {
			t.Errorf("moves (-want +got):\n%s", diff)
		}
	}
	c.run("full", "2", "b") // now it can't
	c.run("more", "2", "a")
	if plan, _ := Propose(&c.Objects, &c.options); plan != nil {
		for i := range plan.Spec.Moves {
			if plan.Spec.Moves[i].Task.Name == "pair" {
				t.Errorf("moves %v", movesText(plan))
			}
		}
	}
}

func TestNothingIsLookedForWhereLessIsFreeThanIsAskedFor(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("a", 4)
	c.node("b", 4)
	c.run("x", "3", "a")
	c.run("y", "2", "b")
	c.wait("large", "4", 1)
	plan, report := Propose(&c.Objects, &c.options)
	if plan != nil || len(report.Waiting) != 1 || !strings.Contains(report.Waiting[0].Message, "more GPU capacity than is free in total") {
		t.Errorf("moves %v: %+v", movesText(plan), report)
	}
}

func TestNodesWithoutAnAgentHaveNoUUIDsAndTakePart(t *testing.T) {
	t.Parallel()
	c := example(t, 3)
	c.wait("c", "4", 1)
	for _, node := range c.Nodes {
		delete(node.Annotations, inventory.Annotation)
	}
	for _, pod := range c.Pods {
		delete(pod.Annotations, inventory.AssignmentAnnotation)
	}
	plan := c.proposal("plan", v1.PlanProposed)
	if diff := cmp.Diff([]string{"0 b: node1 -> node2"}, movesText(plan)); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	if gpus := plan.Spec.Moves[0].To.GPUs; len(gpus) > 0 {
		t.Errorf("GPUs %v", gpus)
	}
	if err := Valid(c.planner(), plan, 0); err != nil {
		t.Error(err)
	}
}

func TestPodsOfOthersNeverMove(t *testing.T) {
	t.Parallel()
	c := example(t, 3)
	c.wait("c", "4", 1)
	for i := range c.Tasks {
		if c.Tasks[i].Name == "b" {
			c.Tasks = append(c.Tasks[:i:i], c.Tasks[i+1:]...) // its Pod stays in c.Pods
			break
		}
	}
	if plan, _ := Propose(&c.Objects, &c.options); plan != nil {
		t.Errorf("moves %v", movesText(plan))
	}
}

// Propose does not modify the Objects: these come from the controller's caches.
func TestProposeChangesNothing(t *testing.T) {
	t.Parallel()
	c := example(t, 3)
	c.wait("c", "4", 1)
	c.node("silent", 1, notReady)
	nodes, pods, tasks := make([]*corev1.Node, 0), make([]*corev1.Pod, 0), make([]*v1.GPUTask, 0)
	for _, node := range c.Nodes {
		nodes = append(nodes, node.DeepCopy())
	}
	for _, pod := range c.Pods {
		pods = append(pods, pod.DeepCopy())
	}
	for i := range c.Tasks {
		tasks = append(tasks, c.Tasks[i].DeepCopy())
	}
	begin := time.Now()
	if plan, _ := Propose(&c.Objects, &c.options); plan == nil {
		t.Fatal("no plan")
	}
	t.Logf("in %v", time.Since(begin))
	if diff := cmp.Diff(nodes, c.Nodes); diff != "" {
		t.Errorf("nodes (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(pods, c.Pods); diff != "" {
		t.Errorf("Pods (-before +after):\n%s", diff)
	}
	for i := range tasks {
		if diff := cmp.Diff(tasks[i], c.Tasks[i].GPUTask); diff != "" {
			t.Errorf("tasks (-before +after):\n%s", diff)
		}
	}
}
