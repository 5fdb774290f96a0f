// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// lostPodPause is the minimum time between the creation of a Pod and its replacement after
// it was lost, so that a Pod that its node rejects at once is not recreated in a tight
// loop.
const lostPodPause = 10 * time.Second

// Config holds the settings that apply to all tasks, from the controller's flags.
type Config struct {
	// Pods are the defaults for Pods.
	Pods PodDefaults
	// Backoff is the delay before a restart after a failure.
	Backoff Backoff
	// TTLSecondsAfterFinished applies to tasks that specify none; nil for no limit.
	TTLSecondsAfterFinished *int32
	// UnreachableNodeTimeoutSeconds likewise.
	UnreachableNodeTimeoutSeconds *int32
	// StartTimeoutSeconds likewise.
	StartTimeoutSeconds *int32
}

// Refusal is why an object of a task can't be created: the API server does not accept it, or the task's
// GPUQueue does not accept the task. It is not about nodes that refuse a Pod.
type Refusal struct {
	// Reason is a CamelCase word, Message a sentence for the user.
	Reason, Message string
	// Retry is when the next attempt is due; zero for at once.
	Retry time.Time
}

// Input is everything that a decision depends on. It is not modified.
type Input struct {
	Task *v1.GPUTask
	// Pods are all Pods that have the task as their controller.
	Pods []*corev1.Pod
	// Gone are Pods of the task that somebody else has deleted since the last decision, as they were at the end.
	Gone []*corev1.Pod
	// HasService is true if the task's Service exists.
	HasService bool
	// Lookup finds the tasks that this one depends on.
	Lookup Lookup
	// Cycle is a cycle of dependencies that the task is on, as Cycles returns it; nil if it is on
	// none.
	Cycle []string
	// HasWaitingDependents is true while another task waits for this one.
	HasWaitingDependents bool
	// NotReady has those nodes of Pods, for which NodeMayBeNotReady is true, that are not ready.
	NotReady map[string]*podfacts.NotReady
	// OtherNodes reports whether there are nodes for a Pod that are none of the given ones. It is only called for tasks
	// that fail otherwise; nil if it can't be told, and there are none.
	OtherNodes func(pod *corev1.Pod, than []string) bool
	// EvictedFor returns what a Pod was evicted for: InterruptionMoved, InterruptionDrained, or else
	// InterruptionEvicted, which nil stands for. It is called for the first of several Pods only.
	EvictedFor func(pod *corev1.Pod) v1.InterruptionReason
	// Refusal is why the last creation of an object was refused, nil if it was not.
	Refusal *Refusal
	// Admission is what the queueing system that the task is submitted to says; nil if it is
	// submitted to none.
	Admission *Admission
	// QueueRuntime is for how long the task's GPUQueue lets tasks run whose run begins now, 0 for no limit; nil if that
	// is not known.
	QueueRuntime *v1.QueueRuntime
	// Now is the time of the decision.
	Now    time.Time
	Config Config
}

// Plan is the result of a decision. The status must be written before anything else is
// done: it records which Pods were counted as failures.
type Plan struct {
	// Status is the task's new status.
	Status v1.GPUTaskStatus
	// CreateService is the Service to create before the Pods, nil if there is none to create.
	CreateService *corev1.Service
	// Create are the Pods to create.
	Create []PlannedPod
	// Samples are the first Pods of Create of each role.
	Samples []*corev1.Pod
	// Delete are the Pods to delete. None of them is being deleted yet.
	Delete []*corev1.Pod
	// ForceDelete are terminating Pods to delete without waiting for their nodes.
	ForceDelete []*corev1.Pod
	// Discount are unbound Pods whose label LabelMinAvailable is to be lowered to
	// MinAvailable, since members of the gang have succeeded.
	Discount     []*corev1.Pod
	MinAvailable string
	// Confirm are Pods that were asked for a checkpoint. They are to learn of LastCheckpoint, that of
	// the task: checkpoint.Confirm.
	Confirm        []*corev1.Pod
	LastCheckpoint time.Time
	// Declare are Pods that are to declare another run time.
	Declare []RuntimeChange
	// AwaitsRetry is true if Pods are missing, but not to be created before the refusal's Retry.
	AwaitsRetry bool
	// DeleteTask requests the deletion of the task itself.
	DeleteTask bool
	// RequeueAfter is after what time the decision changes without any other cause; 0 for
	// never.
	RequeueAfter time.Duration

	// cause is the part of the status's message that says what delays the task, apart from
	// conditions; "" if nothing does.
	cause string
}

// Decide returns what has to be done for a task now. It returns an error only
// for a status that this package did not write.
func Decide(in Input) (Plan, error) {
	d, err := newDecision(in)
	if err != nil {
		return Plan{}, err
	}
	d.status.ObservedGeneration = in.Task.Generation
	if d.isOrphaning() {
		return d.plan, nil // the garbage collector is about to release the Pods, which go on
	}
	if IsFinished(in.Task) {
		d.deleteActive()
		d.applyTTL()
		return d.plan, nil
	}
	d.confirmCheckpoints()
	d.leaveUnreachableNodes()
	d.endWithTheWork()
	d.countSuccesses()
	if !d.isDeleted() {
		d.countFailures()
		d.nameFirstFailure()
		d.countContainerRestarts()
		d.checkFailedIndexes("")
		d.countNodeRefusals()
		d.countLosses()
		d.restartIfLost()
		d.checkDeadline()
		d.checkRuntime()
	}
	d.advance()
	d.reportPods()
	d.reportRoles()
	d.recordRuntime()
	d.reportHealth()
	d.status.Message = shorten(d.status.Message)
	d.reportSelector()
	return d.plan, nil
}

// decision is the state of one call of Decide. Its methods build up the plan.
type decision struct {
	Input
	roles   []Role
	members []*member // by index
	stray   []*corev1.Pod
	// templateHash returns that of the task.
	templateHash func() string
	// completed are the indexes that have succeeded, also those that an elastic gang has no more;
	// failed those of an array that have failed for good.
	completed, failed indexSet
	plan              Plan
	status            *v1.GPUTaskStatus // of the plan
	// reason is why a task does not run that is Pending; empty as long as that is not known.
	reason v1.TaskReason
	// overdue says which Pods should have stopped, and may still run, as their nodes are not ready; "" if none should.
	overdue string
	// quiet says which Pods are supposed to run on nodes that are not ready; "" if none is.
	quiet string
}

func newDecision(in Input) (*decision, error) {
	completed, err := parseIndexes(in.Task.Status.CompletedIndexes)
	if err != nil {
		return nil, fmt.Errorf("status.completedIndexes: %w", err)
	}
	failed, err := parseIndexes(in.Task.Status.FailedIndexes)
	if err != nil {
		return nil, fmt.Errorf("status.failedIndexes: %w", err)
	}
	d := &decision{Input: in, completed: completed, failed: failed, roles: Roles(in.Task)}
	d.templateHash = sync.OnceValue(func() string { return TemplateHash(in.Task) })
	d.plan.Status = *in.Task.Status.DeepCopy()
	d.plan.Status.EstimatedStart = nil // unless it still waits
	d.status = &d.plan.Status
	d.matchMembers()
	for i, m := range d.members {
		m.succeeded, m.failed = completed.has(i), failed.has(i)
	}
	return d, nil
}

// advance brings the task one step closer to its spec.
func (d *decision) advance() {
	switch {
	case d.isFailing():
		d.stopAndFail()
	case d.hasSucceeded():
		d.succeed()
	case d.countDone() == len(d.members):
		d.failIndexes()
	case d.isDeleted():
		d.stopDeleted()
	case SuspensionRequested(d.Task):
		d.suspend()
	case d.hasOutdatedPods():
		d.replaceOutdated()
	default:
		d.start()
	}
}

// start runs the task if neither its dependencies nor the queueing system object. It waits for its
// dependencies first: until then it needs no quota.
func (d *decision) start() {
	if !d.isHeld() || WaitsForDependencies(d.Task) {
		d.resume()
	}
	switch {
	case !d.dependenciesAllow():
	case d.isHeld():
		d.hold()
	default:
		d.run()
	}
}

// succeed waits until no Pod runs before it marks the task as succeeded, so that a finished task
// holds no GPU.
func (d *decision) succeed() {
	reason, message := reasonAllSucceeded, plural.Count(d.countSucceeded(), "Pod")+" succeeded"
	if d.countSucceeded() < len(d.members) {
		reason = reasonSuccessPolicy
		message += ", as many as spec.successPolicy asks for"
	}
	if active := d.deleteActive(); active > 0 {
		d.status.Message = message + "; " + d.untilStopped(active)
		return
	}
	d.setCondition(v1.ConditionScheduled, metav1.ConditionTrue, reasonScheduled, "") // what waited last is not needed any more
	d.finish(v1.PhaseSucceeded, v1.ConditionSucceeded, reason, message)
}

// stopAndFail waits until no Pod runs before it marks the task as failed, so that a failed
// task holds no GPU.
func (d *decision) stopAndFail() {
	target := meta.FindStatusCondition(d.status.Conditions, v1.ConditionFailureTarget)
	if active := d.deleteActive(); active > 0 {
		d.status.Message = fmt.Sprintf("failing: %s; %s", target.Message, d.untilStopped(active))
		return
	}
	d.finish(v1.PhaseFailed, v1.ConditionFailed, target.Reason, target.Message)
}

// isDeleted reports whether somebody has deleted the task. It exists as long as it has a finalizer; the
// garbage collector deletes its Pods only then, or before if that was asked for.
func (d *decision) isDeleted() bool { return d.Task.DeletionTimestamp != nil }

// isOrphaning reports whether the task was deleted in such a way that its Pods outlive it.
func (d *decision) isOrphaning() bool {
	return d.isDeleted() && slices.Contains(d.Task.Finalizers, metav1.FinalizerOrphanDependents)
}

// stopDeleted stops a task that was deleted before it had finished: whoever keeps it with a finalizer
// may wait for its end.
func (d *decision) stopDeleted() {
	d.setConditionIfPresent(v1.ConditionScheduled, metav1.ConditionFalse, v1.ReasonDeleted)
	d.setConditionIfPresent(v1.ConditionRunning, metav1.ConditionFalse, v1.ReasonDeleted)
	if active := d.deleteActive(); active > 0 {
		d.status.Message = "being deleted: " + d.untilStopped(active)
		return
	}
	d.finish(v1.PhaseFailed, v1.ConditionFailed, v1.ReasonDeleted, "deleted before it had finished")
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
	if d.pause("Suspended", "spec.suspend is true", "suspending") {
		d.status.Message = "suspended: kubectl gputask resume " + d.Task.Name
	}
}

// pause stops the task without finishing it and reports whether no Pod runs any more.
func (d *decision) pause(reason, why, doing string) bool {
	d.setCondition(v1.ConditionSuspended, metav1.ConditionTrue, reason, why)
	d.setConditionIfPresent(v1.ConditionScheduled, metav1.ConditionFalse, reason)
	d.setConditionIfPresent(v1.ConditionRunning, metav1.ConditionFalse, reason)
	d.status.StartTime = nil
	if active := d.deleteActive(); active > 0 {
		d.status.Message = doing + ": " + d.untilStopped(active)
		return false
	}
	d.status.Phase = v1.PhaseSuspended
	return true
}

// SuspensionRequested reports whether spec.suspend is true.
func SuspensionRequested(task *v1.GPUTask) bool {
	return ptr.Deref(task.Spec.Suspend, false)
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
	dependencies := checkDependencies(d.Task, d.Lookup, d.Cycle)
	switch {
	case dependencies.met:
		d.setCondition(v1.ConditionDependenciesMet, metav1.ConditionTrue, reasonDependenciesMet, "")
		return true
	case dependencies.failed:
		d.setFailureTarget(dependencies.reason, dependencies.message)
		d.stopAndFail()
	default:
		d.setCondition(v1.ConditionDependenciesMet, metav1.ConditionFalse, dependencies.reason, dependencies.message)
		d.status.Phase = v1.PhaseWaiting
		d.status.Message = dependencies.message
	}
	return false
}

// deleteActive requests the deletion of every active Pod, and returns how many there are,
// including those that are being deleted already.
func (d *decision) deleteActive() int {
	active := 0
	for _, pod := range d.Pods {
		state := outcomeOf(pod)
		if !state.isActive() {
			continue
		}
		active++
		if state != podTerminating {
			d.plan.Delete = append(d.plan.Delete, pod)
		}
	}
	return active
}

func (d *decision) requeueAfter(delay time.Duration) {
	if d.plan.RequeueAfter == 0 || delay < d.plan.RequeueAfter {
		d.plan.RequeueAfter = max(delay, time.Millisecond)
	}
}

// now returns the time of the decision as the API stores times: in seconds.
func (d *decision) now() *metav1.Time {
	now := metav1.NewTime(d.Now).Rfc3339Copy()
	return &now
}
