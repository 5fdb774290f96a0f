// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

// Reasons of plans that have ended, or are about to.
const (
	// ReasonCompleted: every Pod was moved that was still there to be moved.
	ReasonCompleted = "Completed"
	// ReasonStarted: the task that room was made for has nodes.
	ReasonStarted = "TaskStarted"
	// ReasonNotNeeded: that task is gone, has ended or is suspended.
	ReasonNotNeeded = "NotNeeded"
	// ReasonAbortRequested: spec.abort was set.
	ReasonAbortRequested = "AbortRequested"
	// ReasonStale: the proposal no longer suits the cluster. No backoff follows.
	ReasonStale = "Stale"
	// ReasonDrifted: the cluster is no longer as it was when the plan was made.
	ReasonDrifted = "Drifted"
	// ReasonElsewhere: a Pod came to be on another node than planned.
	ReasonElsewhere = "Elsewhere"
	// ReasonForbidden: a PodDisruptionBudget did not allow the evictions in time.
	ReasonForbidden = "Forbidden"
	// ReasonTimedOut: the Pods of a turn did not arrive in time.
	ReasonTimedOut = "TimedOut"
	// ReasonNotStarted: all was moved, but the task did not start in time.
	ReasonNotStarted = "TaskDidNotStart"
	// ReasonInvalid: the plan can't be read.
	ReasonInvalid = "Invalid"
)

// Try is what the process remembers of an eviction that it asked for.
type Try struct {
	At time.Time
	// Granted is true if the API server evicted the Pod.
	Granted bool
	// Refusal is the API server's answer if not.
	Refusal string
}

// Input is all that a step depends on. Nothing in it is changed.
type Input struct {
	Plan *v1.MovePlan
	// Objects has at least the tasks that the plan names, nodes, PodDisruptionBudgets and
	// plans. Its Now is the time of the decision.
	Objects *clusterview.Objects
	// MoveTimeout is how long Pods may take from their end to their new start.
	MoveTimeout time.Duration
	// Drift is whether the rest of the plan can still be carried out as planned; nil if
	// that was not checked. To find it out takes all Pods of the cluster, and most steps
	// don't depend on it: see Output.CheckDrift.
	Drift *Drift
	// Stale is why a proposal no longer suits; empty if it does.
	Stale string
	// Lost is the work, in GPU-seconds, that a Pod loses if it is evicted now. Without
	// it what the plan foresaw counts.
	Lost func(task *v1.GPUTask, pod *corev1.Pod) int64
	// Tries are the evictions that this process asked for, by the UIDs of the Pods.
	Tries map[types.UID]Try
}

// Drift is what a check of the rest of a plan has found.
type Drift struct {
	// Why says why the rest can't be carried out as planned; empty if it can.
	Why string
	// Err is why that could not be found out.
	Err error
}

// Count says that the moves of a task are to be counted in its status.
type Count struct {
	Namespace, Name string
	UID             types.UID
	Move            v1.LastMove
}

// Event is something that people must know of a plan or a task.
type Event struct {
	// Task is nil for an event of the plan.
	Task *v1.TaskReference
	// Warning is true if somebody should look.
	Warning         bool
	Reason, Message string
}

// Output is what a step asks for.
type Output struct {
	// CheckDrift is the rest of the plan if the step depends on Input.Drift and that was
	// not given. Then nothing else is asked for: the caller checks the rest and calls
	// Step again.
	CheckDrift *v1.MovePlan
	// Status is to be written; nil if it stays as it is. Nothing but Events, which are
	// told when it is written, and Count comes with it.
	Status *v1.MovePlanStatus
	Events []Event
	// Evict are Pods to evict now.
	Evict []*corev1.Pod
	// Count are tasks whose moves have not been counted yet.
	Count []Count
	// LookAgainAfter is when time alone changes the decision; 0 for never.
	LookAgainAfter time.Duration
}

// step is the state of one call of Step.
type step struct {
	Input
	now    time.Time
	status *v1.MovePlanStatus
	tasks  map[taskKey]*clusterview.Task
	out    Output
}

type taskKey struct{ namespace, name string }

// Step returns what is to be done next for a plan. An error means that it is to be
// tried again.
func Step(in Input) (Output, error) {
	s := &step{Input: in, now: in.Objects.Now, status: in.Plan.Status.DeepCopy(), tasks: tasksByName(in.Objects.Tasks)}
	if err := s.advance(); err != nil {
		return Output{}, fmt.Errorf("MovePlan %s: %w", in.Plan.Name, err)
	}
	if s.out.CheckDrift != nil {
		return Output{CheckDrift: s.out.CheckDrift}, nil
	}
	switch {
	case s.changed():
		s.out.Status = s.status
		s.out.Events = events(in.Plan, s.status)
	case in.Plan.Status.Phase == v1.PlanExecuting:
		// Before the reservations end, which are renewed when half of their time is over.
		s.lookAgainAfter(span(s.tasks, in.Plan, in.MoveTimeout) / 3)
	}
	return s.out, nil
}

func (s *step) advance() error {
	if Finished(s.Plan) {
		return nil
	}
	if err := readable(s.Plan); err != nil {
		s.status.Moves, s.status.Moved = nil, 0 // they may be of other moves than these
		s.end(v1.PlanAborted, ReasonInvalid, err.Error())
		return nil
	}
	switch s.Plan.Status.Phase {
	case v1.PlanApproved:
		return s.approved()
	case v1.PlanExecuting:
		return s.execute()
	default:
		s.proposed()
		return nil
	}
}

// readable says what is wrong with a plan that somebody wrote by hand.
func readable(plan *v1.MovePlan) error {
	if len(plan.Spec.Moves) == 0 {
		return fmt.Errorf("spec.moves: is empty: there is nothing to move")
	}
	if plan.Spec.Goal == v1.GoalPendingTask && plan.Spec.For == nil {
		return fmt.Errorf("spec.for: is missing: it names the task that room is made for")
	}
	if has, needs := len(plan.Status.Moves), len(plan.Spec.Moves); has > 0 && has != needs {
		return fmt.Errorf("status.moves: has %d entries for %d moves", has, needs)
	}
	for i := 1; i < len(plan.Spec.Moves); i++ {
		if plan.Spec.Moves[i].Turn < plan.Spec.Moves[i-1].Turn {
			return fmt.Errorf("spec.moves[%d].turn: is %d after %d: moves stand in the order of their turns", i, plan.Spec.Moves[i].Turn, plan.Spec.Moves[i-1].Turn)
		}
	}
	return nil
}

func (s *step) changed() bool {
	return !equality.Semantic.DeepEqual(&s.Plan.Status, s.status)
}

func (s *step) lookAgainAfter(delay time.Duration) {
	delay = max(delay, 100*time.Millisecond)
	if s.out.LookAgainAfter == 0 || delay < s.out.LookAgainAfter {
		s.out.LookAgainAfter = delay
	}
}

// time returns the time of the decision as the API stores times: in seconds.
func (s *step) time() *metav1.Time {
	now := metav1.NewTime(s.now).Rfc3339Copy()
	return &now
}

func tasksByName(tasks []clusterview.Task) map[taskKey]*clusterview.Task {
	byName := make(map[taskKey]*clusterview.Task, len(tasks))
	for i := range tasks {
		byName[taskKey{tasks[i].Namespace, tasks[i].Name}] = &tasks[i]
	}
	return byName
}
