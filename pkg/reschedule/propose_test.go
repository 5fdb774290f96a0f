// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/moveplan"
)

// example is the documents': node1 runs A (4 GPUs) and B (3) and has 8.
func example(tb testing.TB, gpusOfNode2 int) *cluster {
	tb.Helper()
	c := newCluster(tb)
	c.node("node1", 8)
	c.node("node2", gpusOfNode2)
	c.run("a", "4", "node1")
	c.run("b", "3", "node1")
	return c
}

// savedJustNow makes moves cheap.
func (c *cluster) savedJustNow() {
	for i := range c.Tasks {
		c.Tasks[i].Annotations = map[string]string{v1.AnnotationLastCheckpoint: c.Now.Add(-time.Minute).Format(time.RFC3339)}
	}
}

func TestTheExampleEndsWithAAndCOnNode1AndBOnNode2WhereNoSlotIsFree(t *testing.T) {
	t.Parallel()
	c := example(t, 3) // enough for B, not for C
	c.wait("c", "4", 1)
	plan, report := Propose(&c.Objects, &c.options)
	if plan == nil {
		t.Fatalf("no plan: %+v", report)
	}
	if diff := cmp.Diff([]string{"0 b: node1 -> node2"}, movesText(plan)); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	if plan.Spec.Goal != v1.GoalPendingTask || plan.Spec.For.Name != "c" || plan.Spec.Gain.GPUs != 4 || !plan.Spec.Approved {
		t.Errorf("got %+v", plan.Spec)
	}
	c.carry(plan)
	if diff := cmp.Diff(map[string]string{"a": "node1", "b": "node2", "c": "node1"}, c.at()); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

// TestMovesForAnotherNamespace: a person approves them, and the namespace that they are for has a
// budget of its own.
func TestMovesForAnotherNamespace(t *testing.T) {
	t.Parallel()
	spentFor := func(namespace string) *v1.MovePlan {
		plan := spent(1, time.Minute, 600*secondsPerMinute)
		plan.Spec.For = &v1.TaskReference{Namespace: namespace, Name: "before"}
		plan.Spec.Moves[0].Task.Namespace = "third"
		return plan
	}
	tests := map[string]struct {
		change   func(*cluster)
		proposed bool
		approved bool
	}{
		"need approval":                               {func(*cluster) {}, true, false},
		"need none if the flag says so":               {func(c *cluster) { c.options.ApproveForOthers = true }, true, true},
		"are not proposed when the budget is used up": {func(c *cluster) { c.Plans = append(c.Plans, spentFor("other")) }, false, false},
		"don't pay for what others caused":            {func(c *cluster) { c.Plans = append(c.Plans, spentFor("another")) }, true, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := example(t, 3)
			inNamespace(c.wait("c", "4", 1), "other")
			tc.change(c)
			plan, report := Propose(&c.Objects, &c.options)
			if (plan != nil) != tc.proposed {
				t.Fatalf("proposed: %v, %+v", plan != nil, report)
			}
			if plan != nil && plan.Spec.Approved != tc.approved {
				t.Errorf("approved: %v", plan.Spec.Approved)
			}
		})
	}
}

func TestTheExampleEndsWithAAndCOnNode1AndBOnNode2WhereASlotIsFree(t *testing.T) {
	t.Parallel()
	c := example(t, 8)
	task := c.wait("c", "4", 1)
	plan, report := Propose(&c.Objects, &c.options)
	if plan != nil {
		t.Fatalf("C has room and others are moved: %v, %+v", movesText(plan), report)
	}
	c.bind(task.Pods[0], "node2", []int{0, 1, 2, 3}) // the scheduler finds the slot
	task.Pods[0].Status.Phase, task.Status.Phase = corev1.PodRunning, v1.PhaseRunning
	c.savedJustNow()
	if plan, report = Propose(&c.Objects, &c.options); plan == nil {
		t.Fatalf("no plan: %+v", report)
	}
	if plan.Spec.Goal != v1.GoalCapacity || plan.Spec.For != nil || len(plan.Spec.Places) > 0 {
		t.Errorf("got %+v", plan.Spec)
	}
	c.carry(plan)
	if diff := cmp.Diff(map[string]string{"a": "node1", "b": "node2", "c": "node1"}, c.at()); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	if plan, _ = Propose(&c.Objects, &c.options); plan != nil {
		t.Errorf("it does not come to rest: %v", movesText(plan))
	}
}

func forAnother(plan *v1.MovePlan) *v1.MovePlan {
	plan.Spec.For, plan.Spec.Approved = &v1.TaskReference{Namespace: "default", Name: "another"}, false
	return plan
}

func TestPropose(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*cluster)
		want   []string
		// why is a part of what the report says.
		why string
	}{
		"the Pod that stands in the way moves": {func(*cluster) {}, []string{"0 b: node1 -> node2"}, ""},
		"of two that would do the cheaper one moves": {func(c *cluster) {
			c.node("node3", 8)
			c.run("d", "4", "node3")
			c.run("e", "3", "node3").Pods[0].Annotations[v1.AnnotationLastCheckpoint] = now.Add(-time.Minute).Format(time.RFC3339)
		}, []string{"0 e: node3 -> node2"}, ""},
		"a new task may still find a node": {func(c *cluster) {
			c.task("c").Pods[0].CreationTimestamp = metav1.NewTime(now.Add(-c.options.Patience))
		}, nil, "has waited for less than"},
		"a task that may never be moved stays": {func(c *cluster) {
			rescheduling(func(r *v1.Rescheduling) { r.Policy = v1.ReschedulingNever })(c.task("b"))
		}, nil, "no moves within the limits"},
		"a task of higher priority stays": {func(c *cluster) {
			c.task("b").Pods[0].Spec.Priority = new(int32(1))
		}, nil, "no moves within the limits"},
		"a PodDisruptionBudget keeps it": {func(c *cluster) {
			c.Budgets = append(c.Budgets, disruptionBudget(0, map[string]string{v1.LabelTask: "b"}))
		}, nil, "no moves within the limits"},
		"a plan that waits for approval is enough": {func(c *cluster) {
			c.options.ApproveCost = 0
			c.Plans = append(c.Plans, c.proposal("first", v1.PlanProposed))
		}, nil, "MovePlan first waits for approval"},
		"a plan for another task that waits for approval keeps nobody else waiting": {func(c *cluster) {
			c.Plans = append(c.Plans, forAnother(c.proposal("first", v1.PlanProposed)))
		}, []string{"0 b: node1 -> node2"}, ""},
		"but one at a time is enough to approve": {func(c *cluster) {
			c.options.ApproveCost = 0
			c.Plans = append(c.Plans, forAnother(c.proposal("first", v1.PlanProposed)))
		}, nil, "MovePlan first waits for approval"},
		"a task that waits is worth more than capacity": {func(c *cluster) {
			c.options.ApproveCost = 0
			plan := c.proposal("first", v1.PlanProposed)
			plan.Spec.Goal, plan.Spec.For, plan.Spec.Places = v1.GoalCapacity, nil, nil
			c.Plans = append(c.Plans, plan)
		}, []string{"0 b: node1 -> node2"}, ""},
		"a plan that is being carried out is enough": {func(c *cluster) {
			c.Plans = append(c.Plans, c.proposal("first", v1.PlanExecuting))
		}, nil, "MovePlan first is being carried out"},
		"a plan that has ended is none": {func(c *cluster) {
			c.Plans = append(c.Plans, c.proposal("first", v1.PlanDone))
		}, []string{"0 b: node1 -> node2"}, ""},
		"a plan that was aborted is tried again later": {func(c *cluster) {
			c.Plans = append(c.Plans, aborted(c.proposal("first", v1.PlanAborted), time.Second))
		}, nil, "the next attempt is at 2026-11-21T12:00:59Z"},
		"a plan that was aborted long ago is tried again": {func(c *cluster) {
			c.Plans = append(c.Plans, aborted(c.proposal("first", v1.PlanAborted), time.Minute))
		}, []string{"0 b: node1 -> node2"}, ""},
		"a plan that was stale is tried again at once": {func(c *cluster) {
			plan := aborted(c.proposal("first", v1.PlanAborted), time.Second)
			plan.Status.Reason = moveplan.ReasonStale
			c.Plans = append(c.Plans, plan)
		}, []string{"0 b: node1 -> node2"}, ""},
		"the moves of an hour are limited": {func(c *cluster) {
			c.options.MovesPerHour = 2
			c.Plans = append(c.Plans, spent(2, time.Minute, 0))
		}, nil, "2 Pods were moved within an hour, no more than 2 may be"},
		"the moves of another hour do not count": {func(c *cluster) {
			c.options.MovesPerHour = 2
			c.Plans = append(c.Plans, spent(2, time.Hour, 0))
		}, []string{"0 b: node1 -> node2"}, ""},
		"the work of an hour is limited": {func(c *cluster) {
			c.options.GPUMinutesPerHour = 40
			c.Plans = append(c.Plans, spent(1, time.Minute, 11*60)) // 29 are left, and the move loses 30
		}, nil, "no moves within the limits"},
		"what is left of the work of an hour may be lost": {func(c *cluster) {
			c.options.GPUMinutesPerHour = 41
			c.Plans = append(c.Plans, spent(1, time.Minute, 11*60))
		}, []string{"0 b: node1 -> node2"}, ""},
		"tasks of another namespace stay": {func(c *cluster) { c.options.Namespace = "other" }, nil, "only tasks of namespace other"},
		"a task that no node is large enough for is not helped": {func(c *cluster) {
			c.Tasks = c.Tasks[:2]
			c.wait("huge", "16", 1)
		}, nil, "it would not fit even if nothing else ran"},
		"a gang that lacks a Pod is not helped": {func(c *cluster) {
			c.Tasks = c.Tasks[:2]
			task := c.wait("pair", "4", 2)
			task.Pods = task.Pods[:1]
		}, nil, "its gang has 1 of the 2 Pods"},
		"the task of higher priority comes first": {func(c *cluster) {
			c.wait("d", "5", 1).Pods[0].Spec.Priority = new(int32(10))
			c.node("node4", 4)
		}, []string{"0 a: node1 -> node4"}, "another waiting task comes first"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := example(t, 3)
			c.wait("c", "4", 1)
			tc.change(c)
			plan, report := Propose(&c.Objects, &c.options)
			if diff := cmp.Diff(tc.want, movesText(plan)); diff != "" {
				t.Errorf("moves (-want +got):\n%s", diff)
			}
			if text := fmt.Sprint(report.Why, report.Waiting); !strings.Contains(text, tc.why) {
				t.Errorf("the report says %q, want %q in it", text, tc.why)
			}
		})
	}
}

// proposal is the plan that Propose finds first.
func (c *cluster) proposal(name string, phase v1.MovePlanPhase) *v1.MovePlan {
	c.Helper()
	plan, report := Propose(&clusterview.Objects{Tasks: c.Tasks, Nodes: c.Nodes, Pods: c.Pods, Levels: c.Levels, Now: c.Now}, &c.options)
	if plan == nil {
		c.Fatalf("no plan: %+v", report)
		return nil
	}
	plan.Name, plan.Status.Phase = name, phase
	return plan
}

func aborted(plan *v1.MovePlan, ago time.Duration) *v1.MovePlan {
	plan.Status.CompletionTime = new(metav1.NewTime(now.Add(-ago)))
	return plan
}

// spent is a plan that has moved Pods and lost so much work by each.
func spent(moves int, ago time.Duration, lost int64) *v1.MovePlan {
	plan := &v1.MovePlan{ObjectMeta: metav1.ObjectMeta{Name: "spent"}, Spec: v1.MovePlanSpec{Goal: v1.GoalCapacity}}
	plan.Status.Phase = v1.PlanDone
	plan.Status.CompletionTime = new(metav1.NewTime(now.Add(-ago)))
	for range moves {
		plan.Spec.Moves = append(plan.Spec.Moves, v1.Move{Task: v1.TaskReference{Namespace: "default", Name: "x"}})
		plan.Status.Moves = append(plan.Status.Moves, v1.MoveStatus{
			State: v1.MoveMoved, EvictedAt: new(metav1.NewTime(now.Add(-ago))), LostGPUSeconds: lost,
		})
	}
	return plan
}

func TestAPlanSaysWhatItCostsAndWhereAllGo(t *testing.T) {
	t.Parallel()
	c := example(t, 3)
	c.wait("c", "4", 1)
	c.options.ApproveCost = 3*600 + 59
	plan := c.proposal("", "")
	want := v1.MovePlanSpec{
		Goal:   v1.GoalPendingTask,
		Reason: "GPUTask default/c fits nowhere and gets 4 GPUs: 1 Pod moves, losing 30 GPU-minutes of work",
		For:    &v1.TaskReference{Namespace: "default", Name: "c", UID: "task-c"},
		Places: []v1.PodPlace{{Pod: "c", MovePlace: v1.MovePlace{
			Node: "node1", GPUs: []string{uuid("node1", 4), uuid("node1", 5), uuid("node1", 6), uuid("node1", 7)},
		}}},
		Moves: []v1.Move{{
			Task: v1.TaskReference{Namespace: "default", Name: "b", UID: "task-b"}, Pod: "b", PodUID: "b-2", GPUs: "3",
			From:           v1.MovePlace{Node: "node1", GPUs: []string{uuid("node1", 4), uuid("node1", 5), uuid("node1", 6)}},
			To:             v1.MovePlace{Node: "node2", GPUs: []string{uuid("node2", 0), uuid("node2", 1), uuid("node2", 2)}},
			CostGPUSeconds: 3*600 + 60, LostGPUSeconds: 3 * 600, Reason: "makes room on node node1 for GPUTask default/c",
		}},
		CostGPUSeconds: 3*600 + 60,
		Gain:           v1.MoveGain{GPUs: 4},
	}
	if diff := cmp.Diff(want, plan.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	c.options.ApproveCost++
	if plan := c.proposal("", ""); !plan.Spec.Approved {
		t.Error("a plan at the limit of the cost is not approved")
	}
	if plan.GenerateName != "make-room-c-" {
		t.Errorf("generateName %q", plan.GenerateName)
	}
}

func TestAGangMovesAsAWhole(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("a", 4)
	c.node("b", 4)
	c.node("c", 2)
	c.node("d", 2)
	c.run("pair", "2", "a", "b")
	c.run("stays", "2", "b")
	c.wait("large", "4", 1)
	plan := c.proposal("", "")
	if len(plan.Spec.Moves) != 2 || plan.Spec.Moves[0].Turn != 0 || plan.Spec.Moves[1].Turn != 0 {
		t.Errorf("moves %v", movesText(plan))
	}
	c.carry(plan)
	if c.at()["large"] != "a" {
		t.Errorf("ends with %v", c.at())
	}
}

func TestRecreate(t *testing.T) {
	t.Parallel()
	movedAt := func(ago time.Duration) *v1.LastMove {
		return &v1.LastMove{Time: metav1.NewTime(now.Add(-ago)), Plan: "before"}
	}
	tests := map[string]struct {
		change func(*cluster)
		want   []string
	}{
		"all are rescheduled, task by task, a gang in one turn": {func(*cluster) {}, []string{
			"0 a: node1 -> ", "1 b: node1 -> ", "2 pair-0: node2 -> ", "2 pair-1: node2 -> ",
		}},
		"the least recently moved task is first": {func(c *cluster) {
			c.task("a").Status.LastMove = movedAt(20 * time.Minute)
			c.task("b").Status.LastMove = movedAt(30 * time.Minute)
			c.task("pair").Status.LastMove = movedAt(25 * time.Minute)
		}, []string{"0 b: node1 -> ", "1 pair-0: node2 -> ", "1 pair-1: node2 -> ", "2 a: node1 -> "}},
		"a recently moved task is left out": {func(c *cluster) {
			c.task("a").Status.LastMove = movedAt(time.Minute)
			c.task("pair").Status.LastMove = movedAt(time.Minute)
		}, []string{"0 b: node1 -> "}},
		"a gang is not split for a limit": {func(c *cluster) { c.options.MaxMoves = 3 }, []string{"0 a: node1 -> ", "1 b: node1 -> "}},
		"budgets are kept":                {func(c *cluster) { c.options.GPUMinutesPerHour = 61 }, []string{"0 a: node1 -> ", "1 pair-0: node2 -> ", "1 pair-1: node2 -> "}},
		"a task that must never be moved is left out": {func(c *cluster) {
			rescheduling(func(r *v1.Rescheduling) { r.Policy = v1.ReschedulingNever })(c.task("pair"))
		}, []string{"0 a: node1 -> ", "1 b: node1 -> "}},
		"a task that needs approval is a plan of its own": {func(c *cluster) { c.options.ApproveCost = 1 }, []string{"0 a: node1 -> "}},
		"nothing is rescheduled beyond the moves of an hour": {func(c *cluster) {
			c.options.MovesPerHour = 1
			c.Plans = append(c.Plans, spent(1, time.Minute, 0))
		}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := example(t, 3)
			c.run("pair", "1", "node2", "node2")
			c.options.Mode = Recreate
			tc.change(c)
			plan, report := Propose(&c.Objects, &c.options)
			if diff := cmp.Diff(tc.want, movesText(plan)); diff != "" {
				t.Errorf("moves (-want +got):\n%s%+v", diff, report)
			}
		})
	}
}
