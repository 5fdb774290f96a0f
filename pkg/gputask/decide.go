// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// lostPodPause is the least time between the creation of a Pod and its
// replacement after it was lost, so that a Pod that its node refuses at once
// is not recreated in a tight loop.
const lostPodPause = 10 * time.Second

// Config is what the controller's flags say about all tasks.
type Config struct {
	// Pods are the defaults of Pods.
	Pods PodDefaults
	// Backoff is the waiting time before a new start after a failure.
	Backoff Backoff
}

// Obstacle is the API server's refusal to create a Pod of a task.
type Obstacle struct {
	// Reason is a CamelCase word, Message a sentence for the user.
	Reason, Message string
	// Permanent is true if trying again can't help.
	Permanent bool
}

// Input is all that a decision depends on. Nothing in it is changed.
type Input struct {
	Task *v1.GPUTask
	// Pods are all Pods that have the task as their controller.
	Pods []*corev1.Pod
	// Lookup finds the tasks that this one depends on.
	Lookup Lookup
	// Awaited is true while another task waits for this one.
	Awaited bool
	// Obstacle is what stood in the way of the last creation of a Pod, nil if
	// nothing did.
	Obstacle *Obstacle
	// Now is the time of the decision.
	Now    time.Time
	Config Config
}

// Plan is what a decision asks for. The status has to be written before
// anything else is done: it records which Pods were counted as failures.
type Plan struct {
	// Status is the task's new status.
	Status v1.GPUTaskStatus
	// Create are Pods that don't exist.
	Create []*corev1.Pod
	// Delete are Pods that exist and are not being deleted yet.
	Delete []*corev1.Pod
	// Discount are Pods without a node whose label LabelMinAvailable is to become
	// MinAvailable, since members of the gang have succeeded.
	Discount     []*corev1.Pod
	MinAvailable string
	// DeleteTask asks for the deletion of the task itself.
	DeleteTask bool
	// LookAgainAfter is when time alone changes the decision; 0 for never.
	LookAgainAfter time.Duration

	// cause is the part of the status's message that says what holds the task
	// up, beside what conditions say; "" if nothing does.
	cause string
}

// Decide returns what has to be done for a task now. It returns an error only
// for a status that this package did not write.
func Decide(in Input) (Plan, error) {
	d, err := newDecision(in)
	if err != nil {
		return Plan{}, fmt.Errorf("status.completedIndexes: %w", err)
	}
	d.status.ObservedGeneration = in.Task.Generation
	if in.Task.DeletionTimestamp != nil {
		return d.plan, nil // the garbage collector deletes the Pods
	}
	if IsFinished(in.Task) {
		d.deleteActive()
		d.applyTTL()
		return d.plan, nil
	}
	d.countSuccesses()
	d.countFailures()
	d.checkDeadline()
	d.advance()
	d.reportPods()
	d.status.Message = shorten(d.status.Message)
	return d.plan, nil
}

// decision is the state of one call of Decide. Its methods build up the plan.
type decision struct {
	Input
	members   []member // by index
	stray     []*corev1.Pod
	completed indexSet
	plan      Plan
	status    *v1.GPUTaskStatus // of the plan
}

func newDecision(in Input) (*decision, error) {
	completed, err := parseIndexes(in.Task.Status.CompletedIndexes)
	if err != nil {
		return nil, err
	}
	d := &decision{Input: in, completed: completed}
	d.plan.Status = *in.Task.Status.DeepCopy()
	d.status = &d.plan.Status
	d.members, d.stray = sortIntoMembers(in.Task, in.Pods)
	return d, nil
}

// advance brings the task one step further towards what its spec asks for.
func (d *decision) advance() {
	switch {
	case d.isFailing():
		d.stopAndFail()
	case len(d.completed) == len(d.members):
		d.succeed()
	case SuspensionRequested(d.Task):
		d.suspend()
	default:
		d.resume()
		if d.dependenciesAllow() {
			d.run()
		}
	}
}

func (d *decision) succeed() {
	d.deleteActive()
	d.finish(v1.PhaseSucceeded, v1.ConditionSucceeded, "AllPodsSucceeded",
		podCount(len(d.members))+" succeeded")
}

// stopAndFail waits until no Pod runs before it calls the task failed, so that
// a failed task holds no GPU.
func (d *decision) stopAndFail() {
	target := findCondition(d.status.Conditions, v1.ConditionFailureTarget)
	if active := d.deleteActive(); active > 0 {
		d.status.Message = fmt.Sprintf("failing: %s; waiting for %s to stop", target.Message, podCount(active))
		return
	}
	d.finish(v1.PhaseFailed, v1.ConditionFailed, target.Reason, target.Message)
}

func (d *decision) finish(phase v1.GPUTaskPhase, condition, reason, message string) {
	d.status.Phase = phase
	d.status.Message = message
	d.status.CompletionTime = d.now()
	d.setCondition(condition, metav1.ConditionTrue, reason, message)
	d.setConditionIfPresent(v1.ConditionRunning, metav1.ConditionFalse, string(phase))
	d.applyTTL()
}

func (d *decision) suspend() {
	d.setCondition(v1.ConditionSuspended, metav1.ConditionTrue, "Suspended", "spec.suspend is true")
	d.setConditionIfPresent(v1.ConditionScheduled, metav1.ConditionFalse, "Suspended")
	d.setConditionIfPresent(v1.ConditionRunning, metav1.ConditionFalse, "Suspended")
	d.status.StartTime = nil
	if active := d.deleteActive(); active > 0 {
		d.status.Message = fmt.Sprintf("suspending: waiting for %s to stop", podCount(active))
		return
	}
	d.status.Phase = v1.PhaseSuspended
	d.status.Message = "suspended: set spec.suspend to false to go on"
}

// SuspensionRequested reports whether spec.suspend is true.
func SuspensionRequested(task *v1.GPUTask) bool {
	return task.Spec.Suspend != nil && *task.Spec.Suspend
}

func (d *decision) resume() {
	d.setConditionIfPresent(v1.ConditionSuspended, metav1.ConditionFalse, "Resumed")
}

// dependenciesAllow reports whether the task may start. Once it has started,
// its dependencies no longer matter.
func (d *decision) dependenciesAllow() bool {
	if len(d.Task.Spec.DependsOn) == 0 || hasStarted(d.Task) {
		return true
	}
	verdict := judgeDependencies(d.Task, d.Lookup)
	switch {
	case verdict.met:
		d.setCondition(v1.ConditionDependenciesMet, metav1.ConditionTrue, reasonDependenciesMet, "")
		return true
	case verdict.failed:
		d.setFailureTarget(verdict.reason, verdict.message)
		d.stopAndFail()
	default:
		d.setCondition(v1.ConditionDependenciesMet, metav1.ConditionFalse, verdict.reason, verdict.message)
		d.status.Phase = v1.PhaseWaiting
		d.status.Message = verdict.message
	}
	return false
}

// deleteActive asks for the deletion of every Pod that holds or may come to
// hold a node, and returns how many of them there are, including those that
// are being deleted already.
func (d *decision) deleteActive() int {
	active := 0
	for _, pod := range d.Pods {
		state := outcomeOf(pod)
		if !state.isActive() {
			continue
		}
		active++
		if state != podEnding {
			d.plan.Delete = append(d.plan.Delete, pod)
		}
	}
	return active
}

func (d *decision) lookAgainAfter(delay time.Duration) {
	if d.plan.LookAgainAfter == 0 || delay < d.plan.LookAgainAfter {
		d.plan.LookAgainAfter = max(delay, time.Millisecond)
	}
}

// now returns the time of the decision as the API stores times: in seconds.
func (d *decision) now() *metav1.Time {
	now := metav1.NewTime(d.Now).Rfc3339Copy()
	return &now
}

func podCount(n int) string {
	if n == 1 {
		return "1 Pod"
	}
	return fmt.Sprintf("%d Pods", n)
}
