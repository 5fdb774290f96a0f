// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// Observed is a task and its Workload at one moment.
type Observed struct {
	Task *v1.GPUTask
	// Status is the task's newest status, which may be ahead of that in Task.
	Status *v1.GPUTaskStatus
	// Active is how many Pods of each role hold, or may come to hold, a node, by the role's name.
	Active map[string]int
	// Workload is nil if the task has none.
	Workload *Workload
	Now      time.Time
}

// Step is what has to be done about a task's Workload next. At most one field is set.
type Step struct {
	// Create asks for a new Workload, Delete for its end.
	Create, Delete bool
	// Spec asks for the Workload's spec to become that of NewWorkload.
	Spec bool
	// Status is the new status of the Workload: conditions, admission and reclaimable Pods.
	Status *WorkloadStatus
}

// Next returns what has to be done next about a task's Workload. An error means that the task's
// status was not written by gpu-controller.
func Next(o Observed) (Step, error) {
	w := o.Workload
	switch {
	case w != nil && w.DeletionTimestamp != nil, w == nil && o.Task.DeletionTimestamp != nil:
		return Step{}, nil // its event comes later
	case o.ended():
		return o.finish(), nil
	case QueueOf(o.Task) == "", !gputask.WantsQuota(o.Task):
		return Step{Delete: w != nil && o.active() == 0}, nil
	case w == nil:
		return Step{Create: true}, nil
	case meta.IsStatusConditionTrue(w.Status.Conditions, Finished):
		return Step{}, nil
	case !w.reserved():
		return Step{Spec: o.differs()}, nil
	case w.isOutdated(o.Task): // Kueue refuses that it changes while it has quota
		return Step{Delete: o.active() == 0}, nil
	case meta.IsStatusConditionTrue(w.Status.Conditions, Evicted):
		return o.giveBack()
	default:
		return o.report()
	}
}

func (o *Observed) ended() bool {
	return o.Status.Phase == v1.PhaseSucceeded || o.Status.Phase == v1.PhaseFailed
}

func (o *Observed) active() int {
	count := 0
	for _, pods := range o.Active {
		count += pods
	}
	return count
}

// finish reports the end of the task.
func (o *Observed) finish() Step {
	if o.Workload == nil || meta.IsStatusConditionTrue(o.Workload.Status.Conditions, Finished) {
		return Step{}
	}
	reason := reasonSucceeded
	if o.Status.Phase == v1.PhaseFailed {
		reason = reasonFailed
	}
	status := o.copyStatus()
	o.set(status, Finished, metav1.ConditionTrue, reason, o.Status.Message)
	return Step{Status: status}
}

// giveBack returns the quota of an evicted Workload when no Pod of it is left. Kueue's integrations
// do the same: only a Workload that was preempted, or has lost its node, queues up again at once;
// after other evictions Kueue itself says when.
func (o *Observed) giveBack() (Step, error) {
	if o.active() > 0 {
		return Step{}, nil
	}
	status := o.copyStatus()
	status.ReclaimablePods = nil // it may ask for all of its Pods again
	if err := o.reclaim(status); err != nil {
		return Step{}, err
	}
	evicted := meta.FindStatusCondition(status.Conditions, Evicted)
	again := metav1.ConditionFalse
	if evicted.Reason == reasonPreempted || evicted.Reason == reasonNodeFailures {
		again = metav1.ConditionTrue
	}
	o.set(status, Requeued, again, evicted.Reason, evicted.Message)
	o.set(status, QuotaReserved, metav1.ConditionFalse, reasonPending, evicted.Message)
	if admitted := meta.FindStatusCondition(status.Conditions, Admitted); admitted != nil && admitted.Status == metav1.ConditionTrue {
		past := int32(max(0, o.Now.Sub(admitted.LastTransitionTime.Time)) / time.Second) //nolint:gosec // seconds
		past += ptr.Deref(status.AccumulatedPastExecutionTimeSeconds, 0)
		status.AccumulatedPastExecutionTimeSeconds = &past
		o.set(status, Admitted, metav1.ConditionFalse, reasonNoReserve, "The workload has no reservation")
	}
	if meta.FindStatusCondition(status.Conditions, PodsReady) != nil {
		o.set(status, PodsReady, metav1.ConditionFalse, reasonWaitForStart, "the task was stopped")
	}
	status.Admission = nil
	return Step{Status: status}, nil
}

// report reports how far the Pods of an admitted Workload are.
func (o *Observed) report() (Step, error) {
	status := o.copyStatus()
	o.reportPods(status)
	if err := o.reclaim(status); err != nil {
		return Step{}, err
	}
	if equality.Semantic.DeepEqual(*status, o.Workload.Status) {
		return Step{}, nil
	}
	return Step{Status: status}, nil
}

// reportPods updates the condition PodsReady, with the reasons that Kueue's integrations use.
func (o *Observed) reportPods(status *WorkloadStatus) {
	if !meta.IsStatusConditionTrue(status.Conditions, Admitted) {
		return
	}
	before := meta.FindStatusCondition(status.Conditions, PodsReady)
	wasReady := before != nil && before.Status == metav1.ConditionTrue
	recovers := before != nil && (before.Reason == reasonWaitRecovery || before.Reason == reasonRecovered)
	switch runs := o.Status.Phase == v1.PhaseRunning; {
	case runs && wasReady:
	case runs && recovers:
		o.set(status, PodsReady, metav1.ConditionTrue, reasonRecovered, "enough Pods of the task run again")
	case runs:
		o.set(status, PodsReady, metav1.ConditionTrue, reasonStarted, "enough Pods of the task run")
	case wasReady:
		o.set(status, PodsReady, metav1.ConditionFalse, reasonWaitRecovery, "too few Pods of the task run")
	}
}

// reclaim gives back the quota of Pods that are not needed any more, since an array comes to its end
// or a gang has become smaller. Kueue refuses that an admitted Workload takes quota back.
func (o *Observed) reclaim(status *WorkloadStatus) error {
	needed, err := gputask.NeededPods(o.Task, o.Status)
	if err != nil {
		return err
	}
	var list []ReclaimablePods
	for _, role := range gputask.Roles(o.Task) {
		name := podSetName(role.Name)
		at := slices.IndexFunc(o.Workload.Spec.PodSets, func(s PodSet) bool { return s.Name == name })
		if at < 0 {
			continue
		}
		pods := int32(max(needed[role.Name], o.Active[role.Name])) //nolint:gosec // at most 10000
		count := max(o.Workload.Spec.PodSets[at].Count-pods, status.reclaimed(name))
		if count > 0 {
			list = append(list, ReclaimablePods{Name: name, Count: count})
		}
	}
	status.ReclaimablePods = list
	return nil
}

// differs reports whether a Workload without quota should ask for something else: for another
// queue, priority class or time, for other Pods, or for another number of them.
func (o *Observed) differs() bool {
	spec := &o.Workload.Spec
	if spec.QueueName != QueueOf(o.Task) || o.Workload.isOutdated(o.Task) {
		return true
	}
	if limit, err := maxExecutionTime(o.Task); err == nil && !ptr.Equal(limit, spec.MaximumExecutionTimeSeconds) {
		return true
	}
	if class := ClassOf(o.Task); class != nil && !equality.Semantic.DeepEqual(class, spec.PriorityClassRef) {
		return true
	}
	roles := gputask.Roles(o.Task)
	for i := range roles {
		name, count := podSetName(roles[i].Name), podsAtOnce(o.Task, &roles[i])
		if !slices.ContainsFunc(spec.PodSets, func(s PodSet) bool { return s.Name == name && int(s.Count) == count }) {
			return true
		}
	}
	return false
}

// copyStatus returns a copy of the status that may be changed.
func (o *Observed) copyStatus() *WorkloadStatus {
	status := o.Workload.Status
	status.Conditions = slices.Clone(status.Conditions)
	return &status
}

// maxMessage is the limit of a condition's message in Kubernetes.
const maxMessage = 32768

func (o *Observed) set(status *WorkloadStatus, kind string, is metav1.ConditionStatus, reason, message string) {
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "")
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: is, Reason: reason, Message: message, ObservedGeneration: o.Workload.Generation,
		LastTransitionTime: metav1.NewTime(o.Now).Rfc3339Copy(),
	})
}

// Patch is the merge patch that writes a status, if the Workload is still of the version that the
// status was made from. An admission is only ever taken back: Kueue's has more fields than ours.
func (s *WorkloadStatus) Patch(workload *Workload) map[string]any {
	status := map[string]any{
		"conditions": s.Conditions, "reclaimablePods": s.ReclaimablePods,
		"accumulatedPastExecutionTimeSeconds": s.AccumulatedPastExecutionTimeSeconds,
	}
	if s.Admission == nil {
		status["admission"] = nil
	}
	return map[string]any{
		"metadata": map[string]any{"resourceVersion": workload.ResourceVersion, "uid": workload.UID}, "status": status,
	}
}

// SpecPatch is the merge patch with which a Workload without quota asks for what another one asks
// for.
func (w *Workload) SpecPatch(wanted *Workload) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"resourceVersion": w.ResourceVersion, "uid": w.UID, "labels": wanted.Labels},
		"spec": map[string]any{
			"podSets": wanted.Spec.PodSets, "queueName": wanted.Spec.QueueName,
			"priorityClassRef": wanted.Spec.PriorityClassRef, "priority": wanted.Spec.Priority,
			"maximumExecutionTimeSeconds": wanted.Spec.MaximumExecutionTimeSeconds,
		},
	}
}

// String describes a step in the log.
func (s Step) String() string {
	switch {
	case s.Create:
		return "create"
	case s.Delete:
		return "delete"
	case s.Spec:
		return "spec"
	case s.Status != nil:
		kinds := make([]string, 0, len(s.Status.Conditions))
		for i := range s.Status.Conditions {
			kinds = append(kinds, fmt.Sprintf("%s=%s", s.Status.Conditions[i].Type, s.Status.Conditions[i].Status))
		}
		return "status " + strings.Join(kinds, " ")
	default:
		return "none"
	}
}
