// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// Reasons of the condition Suspended of a task that Kueue holds back.
const (
	reasonQueued      = "WaitingForQuota"
	reasonChecks      = "WaitingForAdmissionChecks"
	reasonEvicted     = "Evicted"
	reasonDeactivated = "WorkloadDeactivated"
	reasonEnded       = "WorkloadFinished"
	reasonNoAccess    = "WorkloadsForbidden"
	reasonGone        = "KueueNotServed"
)

// Flavors finds a ResourceFlavor by its name; nil if there is none.
type Flavors func(name string) *ResourceFlavor

// AdmissionOf returns what a task's Workload allows it; nil stands for a task that has none yet. An
// error means that this can't be told now, because a flavor is missing.
func AdmissionOf(task *v1.GPUTask, workload *Workload, flavors Flavors) (*gputask.Admission, error) {
	if reason, message := heldBy(task, workload); reason != "" {
		return &gputask.Admission{Reason: reason, Message: message}, nil
	}
	admission := &gputask.Admission{Admitted: true, Grants: map[string]gputask.Grant{}}
	for _, role := range gputask.Roles(task) {
		grant, err := workload.Grant(podSetName(role.Name), flavors)
		if err != nil {
			return nil, err
		}
		admission.Grants[role.Name] = grant
	}
	return admission, nil
}

// Forbidden is the admission of a task whose Workloads gpu-controller may not read.
func Forbidden() *gputask.Admission {
	return &gputask.Admission{Reason: reasonNoAccess,
		Message: "waiting for Kueue: gpu-controller may not access its Workloads: apply artifacts/kueue"}
}

// Gone is the admission of a task where Kueue is expected, and its API is not served.
func Gone() *gputask.Admission {
	return &gputask.Admission{Reason: reasonGone,
		Message: fmt.Sprintf("waiting for Kueue, whose API %s/%s is not served: an administrator has to reinstall Kueue, or remove gpu-controller's permissions for it (artifacts/kueue)", Group, Version)}
}

// heldBy returns why a task may not run; empty if it may.
func heldBy(task *v1.GPUTask, workload *Workload) (reason, message string) {
	queue := fmt.Sprintf("waiting for quota in Kueue's queue %q", QueueOf(task))
	if workload == nil {
		return reasonQueued, queue
	}
	conditions := workload.Status.Conditions
	switch evicted := meta.FindStatusCondition(conditions, Evicted); {
	case meta.IsStatusConditionTrue(conditions, Finished):
		return reasonEnded, fmt.Sprintf("its Workload %s is marked as finished: delete that Workload to queue the task again", workload.Name)
	case workload.DeletionTimestamp != nil:
		return reasonQueued, queue
	case evicted != nil && evicted.Status == metav1.ConditionTrue && workload.reserved():
		return reasonEvicted, fmt.Sprintf("evicted by Kueue (%s): %s", evicted.Reason, evicted.Message)
	case !ptr.Deref(workload.Spec.Active, true):
		return reasonDeactivated, fmt.Sprintf("its Workload %s is deactivated: set its spec.active to true to queue the task again", workload.Name)
	case workload.reserved() && workload.isOutdated(task):
		return reasonQueued, withDetail(queue, "the task was changed after it got quota, and is queued again")
	case !workload.reserved():
		return reasonQueued, withDetail(queue, workload.why(QuotaReserved))
	case !meta.IsStatusConditionTrue(conditions, Admitted):
		return reasonChecks, withDetail("waiting for Kueue's admission checks", workload.openChecks())
	default:
		return "", ""
	}
}

func withDetail(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + ": " + detail
}

// Asks reports whether an admission check has to answer now: quota is reserved, and the check is
// pending.
func (w *Workload) Asks(check string) bool {
	return w.says(check, CheckPending)
}

// says reports whether an admission check says something about a Workload that goes on to hold its quota.
func (w *Workload) says(check string, state CheckState) bool {
	said := w.Check(check)
	return said != nil && said.State == state && w.reserved() && w.DeletionTimestamp == nil &&
		!meta.IsStatusConditionTrue(w.Status.Conditions, Finished) && !meta.IsStatusConditionTrue(w.Status.Conditions, Evicted)
}

// Arrives reports whether an admission check has said Ready, and not all Pods are known to run yet.
func (w *Workload) Arrives(check string) bool {
	return w.says(check, CheckReady) && !meta.IsStatusConditionTrue(w.Status.Conditions, PodsReady)
}

// Check returns what an admission check says; nil if it was not asked for.
func (w *Workload) Check(name string) *AdmissionCheckState {
	at := slices.IndexFunc(w.Status.AdmissionChecks, func(state AdmissionCheckState) bool { return state.Name == name })
	if at < 0 {
		return nil
	}
	return &w.Status.AdmissionChecks[at]
}

// ReservedAt returns when the quota was reserved; the zero time if it is not.
func (w *Workload) ReservedAt() time.Time {
	if reserved := meta.FindStatusCondition(w.Status.Conditions, QuotaReserved); reserved != nil && reserved.Status == metav1.ConditionTrue {
		return reserved.LastTransitionTime.Time
	}
	return time.Time{}
}

// reserved reports whether quota is reserved for the Workload.
func (w *Workload) reserved() bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, QuotaReserved)
}

// why returns the message of a condition.
func (w *Workload) why(kind string) string {
	if condition := meta.FindStatusCondition(w.Status.Conditions, kind); condition != nil {
		return condition.Message
	}
	return ""
}

// openChecks returns what the admission checks that are not ready say.
func (w *Workload) openChecks() string {
	var texts []string
	for i := range w.Status.AdmissionChecks {
		if check := &w.Status.AdmissionChecks[i]; check.State != CheckReady {
			texts = append(texts, withDetail(check.Name, check.Message))
		}
	}
	return strings.Join(texts, "; ")
}

// Grant returns what a pod set was given with the quota that is reserved for it. An error means that
// a flavor is missing.
func (w *Workload) Grant(name string, flavors Flavors) (gputask.Grant, error) {
	grant := gputask.Grant{
		Labels:      map[string]string{LabelPodSet: name},
		Annotations: map[string]string{AnnotationWorkload: w.Name},
	}
	assigned := w.assignment(name)
	if assigned == nil {
		return grant, nil // no Pod: it is not one of its pod sets
	}
	grant.Pods = w.podsWithQuota(assigned)
	for _, flavor := range slices.Compact(slices.Sorted(maps.Values(assigned.Flavors))) {
		found := flavors(flavor)
		if found == nil {
			return grant, fmt.Errorf("there is no ResourceFlavor %q, which Workload %s was admitted with", flavor, w.Name)
		}
		grant.NodeSelector = withValues(grant.NodeSelector, found.Spec.NodeLabels)
		grant.Tolerations = append(grant.Tolerations, found.Spec.Tolerations...)
	}
	if assigned.TopologyAssignment != nil {
		grant.Annotations[topologyUnconstrained] = "true"
		grant.SchedulingGates = []corev1.PodSchedulingGate{{Name: topologyGate}}
	}
	for i := range w.Status.AdmissionChecks {
		addUpdates(&grant, name, w.Status.AdmissionChecks[i].PodSetUpdates)
	}
	return grant, nil
}

// addUpdates adds what an admission check adds to a pod set.
func addUpdates(grant *gputask.Grant, set string, updates []PodSetUpdate) {
	for i := range updates {
		if update := &updates[i]; update.Name == set {
			grant.Labels = withValues(grant.Labels, update.Labels)
			grant.Annotations = withValues(grant.Annotations, update.Annotations)
			grant.NodeSelector = withValues(grant.NodeSelector, update.NodeSelector)
			grant.Tolerations = append(grant.Tolerations, update.Tolerations...)
		}
	}
}

func withValues(values, added map[string]string) map[string]string {
	if values == nil {
		return maps.Clone(added)
	}
	maps.Copy(values, added)
	return values
}

// assignment returns the quota that is reserved for a pod set; nil if there is none.
func (w *Workload) assignment(set string) *PodSetAssignment {
	if w.Status.Admission == nil {
		return nil
	}
	list := w.Status.Admission.PodSetAssignments
	if at := slices.IndexFunc(list, func(a PodSetAssignment) bool { return a.Name == set }); at >= 0 {
		return &list[at]
	}
	return nil
}

// podsWithQuota returns for how many Pods of a pod set quota is reserved now: as many as were
// admitted, without those whose quota was given back. Kueue counts in the same way.
func (w *Workload) podsWithQuota(assigned *PodSetAssignment) int {
	count := int32(0)
	if at := slices.IndexFunc(w.Spec.PodSets, func(s PodSet) bool { return s.Name == assigned.Name }); at >= 0 {
		count = w.Spec.PodSets[at].Count
	}
	count = max(0, count-w.Status.reclaimed(assigned.Name))
	if assigned.Count != nil {
		count = min(count, max(0, *assigned.Count))
	}
	return int(count)
}

// reclaimed returns of how many Pods of a pod set the quota was given back.
func (s *WorkloadStatus) reclaimed(set string) int32 {
	at := slices.IndexFunc(s.ReclaimablePods, func(r ReclaimablePods) bool { return r.Name == set })
	if at < 0 {
		return 0
	}
	return s.ReclaimablePods[at].Count
}
