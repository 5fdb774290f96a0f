// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

func TestValid(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*cluster)
		// want is a part of the error; empty for none.
		want string
	}{
		"nothing has changed":                {func(*cluster) {}, ""},
		"the Pod was replaced":               {func(c *cluster) { c.task("b").Pods[0].UID = "new" }, "Pod default/b: it has ended or was replaced"},
		"the Pod has moved":                  {func(c *cluster) { c.moveTo("b", "node3") }, "Pod default/b: it is no longer on node node1"},
		"the Pod is leaving":                 {func(c *cluster) { c.task("b").Pods[0].DeletionTimestamp = &metav1.Time{Time: now} }, "is not running, or is terminating"},
		"the task may not be moved any more": {func(c *cluster) { rescheduling(func(r *v1.Rescheduling) { r.Policy = "Never" })(c.task("b")) }, "policy is Never"},
		"the task was moved often enough": {func(c *cluster) {
			rescheduling(func(r *v1.Rescheduling) { r.MaxMoves = new(int32(2)) })(c.task("b"))
			c.task("b").Status.Moves = 2
		}, "as often as spec.rescheduling.maxMoves allows"},
		"the destination is gone":      {func(c *cluster) { c.Nodes = c.Nodes[:1] }, "node node2 no longer has room for Pod default/b"},
		"the destination is cordoned":  {func(c *cluster) { c.Nodes[1].Spec.Unschedulable = true }, "node node2 no longer has room"},
		"the destination is not ready": {func(c *cluster) { notReady(c.Nodes[1]) }, "node node2 no longer has room"},
		"the destination was taken":    {func(c *cluster) { c.run("new", "1", "node2") }, "node node2 no longer has room"},
		"a card of the destination was taken": {func(c *cluster) {
			c.free["node2"] = append(c.free["node2"], 100)
			c.grow("node2", 4)
			c.run("new", "1", "node2")
		}, "GPUs of node node2 that Pod default/b was to get are no longer free"},
		"the destination does nothing but tolerate": {func(c *cluster) { tainted(c.Nodes[1]) }, "node node2 no longer has room"},
		"the task that waits is gone":               {func(c *cluster) { c.Tasks = c.Tasks[:2] }, "GPUTask default/c does not wait for a node"},
		"the task that waits is another one":        {func(c *cluster) { c.task("c").UID = "new" }, "GPUTask default/c does not wait"},
		"the task that waits has started":           {func(c *cluster) { c.node("node4", 8); c.moveTo("c", "node4") }, "GPUTask default/c does not wait"},
		"the place that was to be freed is taken":   {func(c *cluster) { c.run("new", "1", "node1") }, "GPUTask default/c has places for 0 of 1 Pods"},
		"a budget that is used up passes":           {func(c *cluster) { c.Plans = append(c.Plans, spent(1000, time.Minute, 1<<30)) }, ""},
		"a PodDisruptionBudget passes":              {func(c *cluster) { c.Budgets = append(c.Budgets, disruptionBudget(0, nil)) }, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := example(t, 3)
			c.wait("c", "4", 1)
			plan := c.proposal("plan", v1.PlanProposed)
			c.node("node3", 3)
			tc.change(c)
			s := c.planner()
			err := Valid(s, plan, 0)
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
			if stale := Stale(s, plan); (stale == "") != (tc.want == "") {
				t.Errorf("stale: %q", stale)
			}
			if again := Valid(s, plan, 0); (again == nil) != (err == nil) {
				t.Errorf("the second time it says %v", again)
			}
		})
	}
}

// Plans may be written by hand.
func TestAPlaceMustBeWhatThePodAsksFor(t *testing.T) {
	t.Parallel()
	c := example(t, 3)
	c.wait("c", "4", 1)
	plan := c.proposal("plan", v1.PlanProposed)
	plan.Spec.Places[0].GPUs = plan.Spec.Places[0].GPUs[1:]
	err := Valid(c.planner(), plan, 0)
	if err == nil || !strings.Contains(err.Error(), "3 GPUs of node node1 are planned for Pod default/c, which asks for 4") {
		t.Errorf("got %v", err)
	}
}

// moveTo lets a task's Pod run on another node.
func (c *cluster) moveTo(name, node string) {
	c.Helper()
	pod := c.task(name).Pods[0]
	if pod.Spec.NodeName != "" {
		c.leave(pod)
	}
	c.bind(pod, node, c.cards(node, c.task(name).Spec.GPUAmount, ""))
}

// grow lets a node have more GPUs.
func (c *cluster) grow(name string, gpus int) {
	c.Helper()
	other := newCluster(c)
	other.node(name, gpus)
	for i := range c.Nodes {
		if c.Nodes[i].Name == name {
			c.Nodes[i] = other.Nodes[0]
		}
	}
}

func TestAPlanStaysValidWhileItIsCarriedOut(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, name := range []string{"a", "b"} {
		c.node(name, 4)
		c.run("on-"+name, "2", name)
	}
	c.node("c", 2)
	c.node("d", 2)
	c.wait("pair", "4", 2)
	plan := c.proposal("plan", v1.PlanApproved)
	if len(plan.Spec.Moves) != 2 {
		t.Fatalf("moves %v", movesText(plan))
	}
	first := plan.DeepCopy()
	first.Spec.Moves, first.Spec.Places = first.Spec.Moves[:1], nil
	c.carry(first)
	s := c.planner()
	if err := Valid(s, plan, 1); err != nil {
		t.Errorf("after the first move: %v", err)
	}
	if err := Valid(s, plan, 0); err == nil {
		t.Error("the first move can be made twice")
	}
	second := plan.DeepCopy()
	second.Spec.Moves, second.Spec.Places = second.Spec.Moves[1:], nil
	c.carry(second)
	if err := Valid(c.planner(), plan, 2); err != nil {
		t.Errorf("after all moves: %v", err)
	}
}

func TestAProposalIsStaleWhenItHasBecomeFarDearer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		later time.Duration
		want  string
	}{
		"at first":                      {0, ""},
		"not when it costs little more": {9 * time.Minute, ""},
		"when it costs twice as much":   {3 * time.Hour, "its cost has grown from"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := example(t, 3)
			c.wait("c", "4", 1)
			plan := c.proposal("plan", v1.PlanProposed)
			c.Now = c.Now.Add(tc.later)
			why := Stale(c.planner(), plan)
			if (why == "") != (tc.want == "") || !strings.Contains(why, tc.want) {
				t.Errorf("got %q, want %q; it cost %d", why, tc.want, plan.Spec.CostGPUSeconds)
			}
		})
	}
}

func TestTheCostOfAPlanGrowsWithTheWorkThatItsPodsWouldRepeat(t *testing.T) {
	t.Parallel()
	c := example(t, 3)
	c.wait("c", "4", 1)
	plan := c.proposal("plan", v1.PlanProposed)
	before, known := CurrentCost(plan, c.planner().Member, c.Now)
	if !known || before.GPUSeconds != plan.Spec.CostGPUSeconds {
		t.Errorf("it costs %+v, known %v, want %d", before, known, plan.Spec.CostGPUSeconds)
	}
	c.Now = c.Now.Add(time.Hour)
	after, _ := CurrentCost(plan, c.planner().Member, c.Now)
	if after.GPUSeconds <= before.GPUSeconds || after.LostGPUSeconds <= before.LostGPUSeconds {
		t.Errorf("after an hour it costs %+v, before %+v", after, before)
	}
	if cost, known := CurrentCost(plan, func(string) *clusterview.Member { return nil }, c.Now); known {
		t.Errorf("without its Pods it costs %+v", cost)
	}
}

func TestAProposalIsStaleWhenTheTaskFitsWithoutIt(t *testing.T) {
	t.Parallel()
	c := example(t, 3)
	c.wait("c", "4", 1)
	plan := c.proposal("plan", v1.PlanProposed)
	c.node("node3", 4)
	if why := Stale(c.planner(), plan); why != "GPUTask default/c fits without it" {
		t.Errorf("got %q", why)
	}
	c.Plans = append(c.Plans, plan)
	c.options.ApproveCost = 0
	plan.Spec.Approved = false
	if next, report := Propose(&c.Objects, &c.options); next != nil || len(report.Stale) != 1 {
		t.Errorf("got %v, report %+v", movesText(next), report)
	}
}
