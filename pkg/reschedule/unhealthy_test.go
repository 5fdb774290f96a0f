// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/moveplan"
)

// breaks makes GPUs of a node unhealthy, for ten minutes by now.
func (c *cluster) breaks(node string, cards ...int) {
	c.Helper()
	c.breaksFor(10*time.Minute, node, cards...)
}

func (c *cluster) breaksFor(period time.Duration, node string, cards ...int) {
	c.Helper()
	c.relist(node, func(gpus []inventory.GPU) {
		for _, card := range cards {
			gpus[card].Health, gpus[card].Fault = inventory.Unhealthy, &inventory.Fault{Reason: "XID79", Since: c.Now.Add(-period)}
		}
	})
}

// heals makes all GPUs of a node healthy.
func (c *cluster) heals(node string) {
	c.Helper()
	c.relist(node, func(gpus []inventory.GPU) {
		for i := range gpus {
			gpus[i].Health, gpus[i].Fault = inventory.Healthy, nil
		}
	})
}

// relist changes the GPUs that the agent of a node lists.
func (c *cluster) relist(name string, change func([]inventory.GPU)) {
	c.Helper()
	n := c.nodeNamed(name)
	listed, err := inventory.Parse(n.Annotations[inventory.Annotation])
	if err != nil {
		c.Fatal(err)
	}
	change(listed.GPUs)
	text, err := listed.String()
	if err != nil {
		c.Fatal(err)
	}
	n.Annotations[inventory.Annotation] = text
}

func (c *cluster) nodeNamed(name string) *corev1.Node {
	c.Helper()
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	c.Fatalf("there is no node %s", name)
	return nil
}

// unhealthyCluster has two nodes with four GPUs each, and moves tasks off broken ones.
func unhealthyCluster(tb testing.TB) *cluster {
	tb.Helper()
	c := newCluster(tb)
	c.options.Unhealthy = true
	c.node("node1", 4)
	c.node("node2", 4)
	return c
}

func TestATaskLeavesABrokenGPU(t *testing.T) {
	t.Parallel()
	c := unhealthyCluster(t)
	c.run("a", "2", "node1:0,1")
	c.run("b", "1", "node1:2")
	c.breaks("node1", 1)
	plan, report := Propose(&c.Objects, &c.options)
	if plan == nil {
		t.Fatalf("no plan: %+v", report)
	}
	if plan.Spec.Goal != v1.GoalUnhealthyGPUs || !plan.Spec.Approved || len(plan.Spec.Moves) != 1 {
		t.Fatalf("got %+v", plan.Spec)
	}
	move := plan.Spec.Moves[0]
	if move.Pod != "a" || strings.Contains(strings.Join(move.To.GPUs, " "), uuid("node1", 1)) || len(move.To.GPUs) != 2 {
		t.Errorf("move %+v", move)
	}
	if want := "GPU 1 of node node1 is unhealthy: XID79"; move.Reason != want || !strings.Contains(plan.Spec.Reason, want) {
		t.Errorf("reasons %q and %q, want %q", move.Reason, plan.Spec.Reason, want)
	}
	c.carry(plan)
	if plan, _ := Propose(&c.Objects, &c.options); plan != nil && plan.Spec.Goal == v1.GoalUnhealthyGPUs {
		t.Errorf("it moves once more: %+v", plan.Spec)
	}
}

// A gang restarts as a whole; those of its Pods whose GPUs are healthy get the same again.
func TestAGangLeavesABrokenGPUAsAWhole(t *testing.T) {
	t.Parallel()
	c := unhealthyCluster(t)
	c.node("node3", 4)
	c.run("gang", "4", "node1", "node2")
	c.breaks("node2", 3)
	plan, report := Propose(&c.Objects, &c.options)
	if plan == nil {
		t.Fatalf("no plan: %+v", report)
	}
	if diff := cmp.Diff([]string{"0 gang-0: node1 -> node1", "0 gang-1: node2 -> node3"}, movesText(plan)); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	if got := plan.Spec.Moves[0].Reason; got != "its gang moves as a whole" {
		t.Errorf("reason of the Pod that keeps its place: %q", got)
	}
	c.carry(plan)
}

func TestAGangIsNotStoppedUntilThereIsRoomForAllOfIt(t *testing.T) {
	t.Parallel()
	c := unhealthyCluster(t)
	c.node("node3", 3) // one GPU too few
	c.run("gang", "4", "node1", "node2")
	c.breaks("node2", 3)
	plan, report := Propose(&c.Objects, &c.options)
	if plan != nil {
		t.Fatalf("plan %v", movesText(plan))
	}
	want := []Verdict{{Task: refTo(c.task("gang").GPUTask), Message: "there is no room elsewhere for all of its Pods"}}
	if diff := cmp.Diff(want, report.Unhealthy); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// If the healthy places can't be kept, the gang gets others for all.
func TestAGangThatMustStayTogetherLeavesItsLeaf(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.options.Unhealthy = true
	for i, leaf := range []string{"a", "a", "b", "b"} {
		c.node(fmt.Sprint("node", i+1), 4, inLeaf(leaf))
	}
	gang := c.run("gang", "4", "node1", "node2")
	gang.Spec.Topology = &v1.Topology{Level: "leaf", Mode: v1.TopologyRequired}
	for _, pod := range gang.Pods {
		pod.Annotations[v1.AnnotationTopologyLevel], pod.Annotations[v1.AnnotationTopologyMode] = "leaf", string(v1.TopologyRequired)
	}
	c.breaks("node2", 0)
	plan, report := Propose(&c.Objects, &c.options)
	if plan == nil {
		t.Fatalf("no plan: %+v", report)
	}
	to := map[string]bool{}
	for _, move := range plan.Spec.Moves {
		to[move.To.Node] = true
	}
	if diff := cmp.Diff(map[string]bool{"node3": true, "node4": true}, to); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestWhoLeavesABrokenGPU(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  func(*cluster)
		leaves  bool
		message string // of the report
	}{
		"by default nobody":                {func(c *cluster) { c.options.Unhealthy = false }, false, ""},
		"a task":                           {func(*cluster) {}, true, "GPUTask default/a leaves GPUs: GPU 0 of node node1 is unhealthy: XID79"},
		"not at once":                      {func(c *cluster) { c.breaksFor(time.Second, "node1", 0) }, false, ""},
		"one that was moved just now, too": {func(c *cluster) { c.task("a").Status.LastMove = &v1.LastMove{Time: metav1.NewTime(c.Now)} }, true, "leaves GPUs"},
		"one that has just begun, too": {func(c *cluster) {
			c.task("a").Spec.Rescheduling = &v1.Rescheduling{MinRuntimeSeconds: new(int32(3600))}
		}, true, "leaves GPUs"},
		"not one that never moves": {func(c *cluster) {
			c.task("a").Spec.Rescheduling = &v1.Rescheduling{Policy: v1.ReschedulingNever}
		}, false, "spec.rescheduling.policy is Never"},
		"not beyond the budget of an hour": {func(c *cluster) { c.options.GPUMinutesPerHour = 1 }, false, "its move loses 10 GPU-minutes"},
		"nor beyond that of moves": {func(c *cluster) {
			c.options.MovesPerHour = 1
			c.Plans = append(c.Plans, spent(1, time.Minute, 0))
		}, false, ""},
		"not from a node that is not ready": {func(c *cluster) { notReady(c.nodeNamed("node1")) }, false, ""},
		"not while its kubelet restarts": {func(c *cluster) {
			c.nodeNamed("node1").Status.Allocatable[v1.ResourceGPU] = resource.MustParse("0")
		}, false, ""},
		"not again soon after a plan was aborted": {func(c *cluster) {
			aborted := spent(1, 10*time.Second, 0)
			aborted.Spec.Goal, aborted.Spec.Moves[0].Task = v1.GoalUnhealthyGPUs, refTo(c.task("a").GPUTask)
			aborted.Status.Phase, aborted.Status.Reason = v1.PlanAborted, moveplan.ReasonDrifted
			c.Plans = append(c.Plans, aborted)
		}, false, "the last plan for it was aborted"},
		"only if a person approves what costs much": {func(c *cluster) { c.options.ApproveCost = 1 }, true, "leaves GPUs"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := unhealthyCluster(t)
			c.run("a", "1", "node1:0")
			c.breaks("node1", 0)
			test.change(c)
			plan, report := Propose(&c.Objects, &c.options)
			leaves := plan != nil && plan.Spec.Goal == v1.GoalUnhealthyGPUs
			message := ""
			if len(report.Unhealthy) > 0 {
				message = report.Unhealthy[0].Message
			}
			if leaves != test.leaves || !strings.Contains(message, test.message) || (test.message == "") != (message == "") {
				t.Errorf("leaves %t, message %q, want %t, %q", leaves, message, test.leaves, test.message)
			}
			if leaves && plan.Spec.Approved == (c.options.ApproveCost == 1) {
				t.Errorf("approved %t", plan.Spec.Approved)
			}
		})
	}
}

func TestWhoLeavesFirst(t *testing.T) {
	t.Parallel()
	c := unhealthyCluster(t)
	c.run("costly", "4", "node1")
	c.run("cheap", "1", "node2:0")
	important := c.run("important", "1", "node2:1")
	important.Pods[0].Spec.Priority = new(int32(100))
	c.node("node3", 2)
	c.breaks("node1", 0)
	c.breaks("node2", 0, 1)
	plan, _ := Propose(&c.Objects, &c.options)
	if plan == nil || plan.Spec.Moves[0].Task.Name != "important" {
		t.Fatalf("first: %+v", plan)
	}
	// While its plan waits for a person, others go on.
	plan.Name, plan.UID, plan.Spec.Approved, plan.Status.Phase = "waits", "waits", false, v1.PlanProposed
	c.Plans = append(c.Plans, plan)
	plan, _ = Propose(&c.Objects, &c.options)
	if plan == nil || plan.Spec.Moves[0].Task.Name != "cheap" {
		t.Fatalf("then: %+v", plan)
	}
}

func TestAPlanIsStaleWhenTheGPUsAreHealthyAgain(t *testing.T) {
	t.Parallel()
	c := unhealthyCluster(t)
	c.run("a", "1", "node1:0")
	c.breaks("node1", 0)
	plan, _ := Propose(&c.Objects, &c.options)
	if plan == nil {
		t.Fatal("no plan")
	}
	if why := Stale(c.planner(), plan); why != "" {
		t.Errorf("while the GPU is broken it is stale: %s", why)
	}
	c.heals("node1")
	if why := Stale(c.planner(), plan); why != "the GPUs are healthy again" {
		t.Errorf("stale: %q", why)
	}
}

// Whatever the cluster looks like, a plan can be carried out as it is, ends on healthy GPUs, and moves all Pods
// of its unit.
func TestPlansToLeaveBrokenGPUsHold(t *testing.T) {
	t.Parallel()
	plans := 0
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		c := randomCluster(t, rng, "1", "2", "0.5", "3")
		c.options.Unhealthy, c.options.ApproveCost = true, 0
		for _, n := range c.Nodes {
			if card := rng.IntN(3); card < len(c.free[n.Name]) {
				c.breaks(n.Name, card)
			}
		}
		plan, _ := Propose(&c.Objects, &c.options)
		if plan == nil || plan.Spec.Goal != v1.GoalUnhealthyGPUs {
			continue
		}
		plans++
		p := c.planner()
		broken := p.lastingFaults()
		if err := Valid(p, plan, 0); err != nil {
			t.Fatalf("seed %d: %v: %v", seed, movesText(plan), err)
		}
		for _, move := range plan.Spec.Moves {
			if why := broken.of(move.To.GPUs); why != "" {
				t.Errorf("seed %d: Pod %s goes to a broken GPU: %s", seed, move.Pod, why)
			}
		}
		c.carry(plan)
	}
	if plans < 100 {
		t.Errorf("only %d of 1000 clusters had a plan", plans)
	}
}
