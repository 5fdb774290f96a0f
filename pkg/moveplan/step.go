// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"errors"
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
	// ReasonCompleted: every Pod that still existed was moved.
	ReasonCompleted = "Completed"
	// ReasonStarted: the task that room was made for has nodes.
	ReasonStarted = "TaskStarted"
	// ReasonNotNeeded: that task is gone, has ended or is suspended.
	ReasonNotNeeded = "NotNeeded"
	// ReasonAbortRequested: spec.abort was set, or the plan deleted.
	ReasonAbortRequested = "AbortRequested"
	// ReasonStale: the proposal is outdated. No backoff follows.
	ReasonStale = "Stale"
	// ReasonDrifted: the cluster is no longer as it was when the plan was made.
	ReasonDrifted = "Drifted"
	// ReasonElsewhere: a Pod ended up on another node than planned.
	ReasonElsewhere = "Elsewhere"
	// ReasonForbidden: a PodDisruptionBudget did not allow the evictions in time.
	ReasonForbidden = "Forbidden"
	// ReasonTimedOut: the Pods of a turn did not arrive in time.
	ReasonTimedOut = "TimedOut"
	// ReasonNotStarted: all Pods were moved, but the task did not start in time.
	ReasonNotStarted = "TaskDidNotStart"
	// ReasonInvalid: the plan is invalid.
	ReasonInvalid = "Invalid"
)

// Try is the last attempt of this process to evict a Pod.
type Try struct {
	At time.Time
	// Granted is true if the API server evicted the Pod.
	Granted bool
	// Refusal is the error otherwise.
	Refusal string
}

// Input is everything that a step depends on. It is not modified.
type Input struct {
	Plan *v1.MovePlan
	// Objects has at least the tasks that the plan names, nodes, PodDisruptionBudgets and
	// plans. Its Now is the time of the decision.
	Objects *clusterview.Objects
	// MoveTimeout is how long Pods may take from their end until they run again.
	MoveTimeout time.Duration
	// Drift is the result of checking whether the rest of the plan can still be carried out
	// as planned; nil if that was not checked. The check takes all Pods of the cluster, and
	// most steps don't depend on it: see Output.CheckDrift.
	Drift *Drift
	// Stale is why a proposal is outdated; empty if it is not.
	Stale string
	// Lost returns the work, in GPU-seconds, that is lost if a Pod is evicted now. If it is
	// nil, the plan's estimate counts.
	Lost func(task *v1.GPUTask, pod *corev1.Pod) int64
	// Tries are the evictions that this process has requested, by Pod UID.
	Tries map[types.UID]Try
}

// Drift is the result of checking the rest of a plan.
type Drift struct {
	// Why is the reason why the rest can't be carried out as planned; empty if it can.
	Why string
	// Err is why the check failed.
	Err error
}

// Count asks for a move to be counted in a task's status.
type Count struct {
	Namespace, Name string
	UID             types.UID
	Move            v1.LastMove
}

// Event is a Kubernetes Event about a plan or a task.
type Event struct {
	// Task is nil for an event of the plan.
	Task *v1.TaskReference
	// Warning is true if somebody should take a look.
	Warning         bool
	Reason, Message string
}

// Output is the result of a step.
type Output struct {
	// CheckDrift is the rest of the plan if the step depends on Input.Drift and it is nil.
	// Then all other fields are empty: the caller checks the rest and calls Step again.
	CheckDrift *v1.MovePlan
	// Status is the status to write; nil if it is unchanged. Only Events, to be recorded
	// once it is written, and Count come with it.
	Status *v1.MovePlanStatus
	Events []Event
	// AskForCheckpoint are Pods to ask to save their work now: see pkg/checkpoint.
	AskForCheckpoint []*corev1.Pod
	// Evict are Pods to evict now.
	Evict []*corev1.Pod
	// Count are tasks whose moves have not been counted yet.
	Count []Count
	// RequeueAfter is after what time the decision changes without any other cause; 0 for
	// never.
	RequeueAfter time.Duration
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

// Step returns what to do next for a plan. After an error it is to be retried.
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
		// Before the reservations expire, which are renewed when half of their time has
		// passed.
		s.requeueAfter(span(s.tasks, in.Plan, in.MoveTimeout) / 3)
	}
	return s.out, nil
}

func (s *step) advance() error {
	if Finished(s.Plan) {
		return nil
	}
	if err := validate(s.Plan); err != nil {
		s.status.Moves, s.status.Moved = nil, 0 // they may belong to other moves
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

// validate returns what is wrong with a plan, which may have been written by hand.
func validate(plan *v1.MovePlan) error {
	if len(plan.Spec.Moves) == 0 {
		return errors.New("spec.moves: is empty: there is nothing to move")
	}
	if plan.Spec.Goal == v1.GoalPendingTask && plan.Spec.For == nil {
		return errors.New("spec.for: is missing: it names the task that room is made for")
	}
	if has, needs := len(plan.Status.Moves), len(plan.Spec.Moves); has > 0 && has != needs {
		return fmt.Errorf("status.moves: has %d entries for %d moves", has, needs)
	}
	for i := 1; i < len(plan.Spec.Moves); i++ {
		if plan.Spec.Moves[i].Turn < plan.Spec.Moves[i-1].Turn {
			return fmt.Errorf("spec.moves[%d].turn: is %d after %d: moves must be in the order of their turns", i, plan.Spec.Moves[i].Turn, plan.Spec.Moves[i-1].Turn)
		}
	}
	return nil
}

// isToAbort reports whether no further Pod is to be moved. A plan that is deleted exists as long as it
// has a finalizer.
func (s *step) isToAbort() bool { return s.Plan.Spec.Abort || s.Plan.DeletionTimestamp != nil }

func (s *step) changed() bool {
	return !equality.Semantic.DeepEqual(&s.Plan.Status, s.status)
}

func (s *step) requeueAfter(delay time.Duration) {
	delay = max(delay, 100*time.Millisecond)
	if s.out.RequeueAfter == 0 || delay < s.out.RequeueAfter {
		s.out.RequeueAfter = delay
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
