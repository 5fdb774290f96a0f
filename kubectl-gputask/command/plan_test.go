// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// newPlan returns a plan that makes room for "big" with two moves.
func newPlan(name string, change ...func(*v1.MovePlan)) *v1.MovePlan {
	move := func(turn int32, pod, from, to string) v1.Move {
		return v1.Move{
			Turn: turn, Task: v1.TaskReference{Namespace: "default", Name: pod, UID: types.UID("uid-" + pod)}, Pod: pod, PodUID: types.UID("uid-pod-" + pod), GPUs: "2",
			From: v1.MovePlace{Node: from, GPUs: []string{uuidOf(from, 0), uuidOf(from, 1)}}, To: v1.MovePlace{Node: to, GPUs: []string{uuidOf(to, 2), uuidOf(to, 3)}},
			CostGPUSeconds: 7260, LostGPUSeconds: 7200, Reason: "makes room on node " + from,
		}
	}
	plan := &v1.MovePlan{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: ago(5 * time.Minute)},
		Spec: v1.MovePlanSpec{
			Goal: v1.GoalPendingTask, Reason: "GPUTask default/big fits nowhere and gets 16 GPUs", For: &v1.TaskReference{Namespace: "default", Name: "big", UID: "uid-big"},
			Moves:          []v1.Move{move(0, "small-0", "h100-0", "h100-1"), move(1, "small-2", "h100-2", "h100-1")},
			Places:         []v1.PodPlace{{Pod: "big-0", MovePlace: v1.MovePlace{Node: "h100-0", GPUs: []string{"a", "b", "c", "d", "e", "f", "g", "h"}}}, {Pod: "big-1", MovePlace: v1.MovePlace{Node: "h100-2"}}},
			CostGPUSeconds: 14520, Gain: v1.MoveGain{GPUs: 16, Nodes: []string{"h100-0", "h100-2"}},
		},
		Status: v1.MovePlanStatus{Phase: v1.PlanProposed, Total: 2, Message: "waits for approval: kubectl gputask plan approve " + name},
	}
	for _, apply := range change {
		apply(plan)
	}
	return plan
}

func executing(plan *v1.MovePlan) {
	plan.Spec.Approved = true
	plan.Status = v1.MovePlanStatus{
		Phase: v1.PlanExecuting, Total: 2, Moved: 1, StartTime: new(ago(time.Minute)), Message: "turn 2 of 2",
		Moves: []v1.MoveStatus{{State: v1.MoveMoved, Node: "h100-1"}, {State: v1.MoveEvicted}},
	}
}

func done(plan *v1.MovePlan) {
	executing(plan)
	plan.CreationTimestamp = ago(time.Hour)
	plan.Status.Phase, plan.Status.Moved, plan.Status.CompletionTime = v1.PlanDone, 2, new(ago(50*time.Minute))
	plan.Status.Message = "all Pods were moved, default/big runs"
	plan.Status.Moves[1] = v1.MoveStatus{State: v1.MoveElsewhere, Node: "h100-3"}
	plan.Status.Gain = &v1.MoveGain{GPUs: 16, Domains: []string{"leaf-0"}}
}

func aborted(plan *v1.MovePlan) {
	plan.Spec.Goal, plan.Spec.For, plan.Spec.Places, plan.Spec.Abort = v1.GoalCapacity, nil, nil, true
	plan.Status.Phase, plan.Status.CompletionTime, plan.Status.Message = v1.PlanAborted, new(ago(time.Minute)), "aborted by a person"
}

func withPlans(t *testing.T) *fixture {
	t.Helper()
	f := fragmented(t)
	f.add(newPlan("proposed"), newPlan("executing", executing), newPlan("done", done), newPlan("aborted", aborted))
	return f
}

func TestPlans(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"without a command they are listed", "plan-list", "plan"},
		{"with the reason in the wide list", "plan-list-wide", "plan list -o wide"},
		{"by name", "plan-list-name", "plan list -o name"},
		{"one that waits for approval shows how to approve it", "plan-show-proposed", "plan show proposed"},
		{"one in progress shows the state of each move", "plan-show-executing", "plan show executing"},
		{"one that is done shows its gain", "plan-show-done", "plan show done"},
		{"one that was aborted", "plan-show-aborted", "plan show aborted"},
		{"in colours", "plan-show-colours", "plan show executing --color always"},
		{"as YAML", "plan-show-yaml", "plan show proposed -o yaml"},
		{"watching stops when the plan has ended", "plan-show-watch", "plan show done --watch"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			withPlans(t).golden(test.golden, strings.Fields(test.args)...)
		})
	}
}

func TestAPlanThatWaitsForApprovalShowsWhatItCostsNow(t *testing.T) {
	t.Parallel()
	const cost = "30m of GPU time when proposed, 4h2m now"
	before := func(plan *v1.MovePlan) { plan.Spec.CostGPUSeconds = 1800 }
	for args, want := range map[string]string{
		"show grown":       "Cost:      " + cost + ", weighted; 4h of work is repeated\n",
		"approve grown":    "moveplan.falldio.com/grown approved: it costs " + cost + "\n",
		"abort grown":      "moveplan.falldio.com/grown aborted\n",
		"show executing":   "of GPU time, weighted; ",
		"show of-the-gone": "Cost:      30m of GPU time, weighted; ",
	} {
		f := fragmented(t)
		f.add(newPlan("grown", before), newPlan("executing", executing, before), newPlan("of-the-gone", before, func(plan *v1.MovePlan) {
			plan.Spec.Moves[0].PodUID = "gone"
		}))
		if err := f.run(append([]string{"plan"}, strings.Fields(args)...)...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if got := f.out.String(); !strings.Contains(got, want) {
			t.Errorf("%s says\n%s\nwant %q", args, got, want)
		}
	}
}

func TestNoPlansSaysWhereTheyComeFrom(t *testing.T) {
	t.Parallel()
	fragmented(t).golden("plan-none", "plan")
}

// checkpoint has all tasks save their work a moment ago.
func (f *fixture) checkpoint() {
	f.t.Helper()
	tasks := f.tasks.FalldioV1().GPUTasks("default")
	list, err := tasks.List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range list.Items {
		task := &list.Items[i]
		metav1.SetMetaDataAnnotation(&task.ObjectMeta, v1.AnnotationLastCheckpoint, testTime.Add(-time.Minute).Format(time.RFC3339))
		if _, err := tasks.Update(f.t.Context(), task, metav1.UpdateOptions{}); err != nil {
			f.t.Fatal(err)
		}
	}
	f.tasks.ClearActions()
}

func TestPreview(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, golden string
		make         func(*fixture)
		args         string
	}{
		{"for a task that waits", "preview-task", func(f *fixture) { f.waits(needy(), 0) }, "plan --preview"},
		{"above the limit of cost", "preview-gang", func(f *fixture) { f.waits(needy(replicas(2)), 0) }, "plan --preview"},
		{"for capacity", "preview-capacity", func(f *fixture) { f.checkpoint() }, "plan --preview"},
		{"with nothing to gain", "preview-nothing", func(*fixture) {}, "plan --preview"},
		{"all again, in mode recreate", "preview-recreate", func(*fixture) {}, "plan --preview --mode recreate"},
		{"as YAML", "preview-yaml", func(f *fixture) { f.waits(needy(), 0) }, "plan --preview -o yaml"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := fragmented(t)
			test.make(f)
			f.golden(test.golden, strings.Fields(test.args)...)
			for _, action := range f.tasks.Actions() {
				if action.GetVerb() != "list" {
					t.Errorf("a preview does %s %s", action.GetVerb(), action.GetResource().Resource)
				}
			}
		})
	}
}

func TestApproveAndAbort(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, args, says, fails string
		approved, abort         bool
	}{
		{name: "a proposed plan is approved", args: "approve proposed", says: "moveplan.falldio.com/proposed approved\n", approved: true},
		{name: "one that is already approved stays so", args: "approve executing", says: "moveplan.falldio.com/executing approved already\n", approved: true},
		{name: "one under way is aborted", args: "abort executing", says: "moveplan.falldio.com/executing aborted\n", approved: true, abort: true},
		{name: "one that is done can't be approved", args: "approve done", fails: "plan done can't be approved: it is Done already", approved: true},
		{name: "one that is done can't be aborted", args: "abort done", fails: "plan done can't be aborted: it is Done already", approved: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := withPlans(t)
			args := strings.Fields(test.args)
			err := f.run(append([]string{"plan"}, args...)...)
			if got := errorText(err); got != test.fails {
				t.Errorf("error %q, want %q", got, test.fails)
			}
			if got := f.out.String(); got != test.says {
				t.Errorf("says %q, want %q", got, test.says)
			}
			plan, err := f.tasks.FalldioV1().MovePlans().Get(t.Context(), args[1], metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if plan.Spec.Approved != test.approved || plan.Spec.Abort != test.abort {
				t.Errorf("approved %t, abort %t; want %t, %t", plan.Spec.Approved, plan.Spec.Abort, test.approved, test.abort)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
