// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package unschedulable

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podwrite"
)

// textPeriod is how often the message of a member that has the condition may change. Autoscalers don't read the
// message.
const textPeriod = time.Minute

// needsNodes reports whether further nodes may help what waits for a cause.
func needsNodes(cause v1.WaitingCause) bool {
	switch cause {
	case v1.WaitsForQueue, v1.WaitsForQueueAccess, v1.WaitsForClaims, v1.WaitsForChange, v1.WaitsForMoves, v1.WaitsForExternal:
		return false
	default:
		return true
	}
}

// writeMembers writes members of a gang that are not its leader, at most limit, and returns how many more may be
// written. complete is true if none is left to be written.
func (r *Reporter) writeMembers(ctx context.Context, one *report, limit int) (left int, complete bool) {
	now := r.Clock.Now()
	changed, complete, written := false, true, map[types.UID]string{}
	for _, pod := range r.Gangs.Unplaced(one.gang) {
		known := one.written[pod.UID]
		if known != "" {
			written[pod.UID] = known
		}
		before := conditionOf(pod)
		isChange := known != "" || before != nil
		switch {
		case one.shownBy(pod, before):
		case limit == 0, isChange && now.Sub(one.changedAt) < textPeriod:
			complete = false
		default:
			limit--
			if !r.writePod(ctx, pod, before, one.text) {
				complete = false
				continue
			}
			written[pod.UID], changed = one.text, changed || isChange
		}
	}
	r.wrote(one.gang, written, changed)
	return limit, complete
}

// shownBy reports whether nothing is to be written to a Pod with this condition: it has the
// text already, or a prospect of its own.
func (o *report) shownBy(pod *corev1.Pod, condition *corev1.PodCondition) bool {
	return pod.Status.NominatedNodeName != "" || o.written[pod.UID] == o.text ||
		condition != nil && strings.Contains(condition.Message, o.text)
}

// wrote records which members of a gang have been written, and whether that changed the text of any.
func (r *Reporter) wrote(gang string, written map[types.UID]string, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	current := r.reports[gang]
	if current == nil {
		return
	}
	current.written = written
	if changed {
		current.changedAt = r.Clock.Now()
	}
}

// conditionOf returns the condition that says that a Pod found no place; nil without one.
func conditionOf(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		one := &pod.Status.Conditions[i]
		if one.Type == corev1.PodScheduled && one.Status == corev1.ConditionFalse && one.Reason == corev1.PodReasonUnschedulable {
			return one
		}
	}
	return nil
}

// writePod writes the condition, if the Pod is still as it is known: it must not be written
// to a Pod that has been bound meanwhile. It returns false if it has to be tried again.
func (r *Reporter) writePod(ctx context.Context, pod *corev1.Pod, before *corev1.PodCondition, text string) bool {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	since := metav1.NewTime(r.Clock.Now())
	if before != nil {
		since = before.LastTransitionTime
	}
	patch, err := podwrite.Patch{
		Metadata: podwrite.Metadata{UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Status: &podwrite.Status{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: text, LastTransitionTime: since,
		}}},
	}.Bytes()
	if err == nil {
		_, err = r.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	switch {
	case podwrite.IsGone(err):
		return true
	case apierrors.IsConflict(err): // the informer will show what has changed
		return false
	case err != nil:
		klog.FromContext(ctx).Error(err, "A Pod's condition could not be written; trying again", "pod", klog.KObj(pod))
	}
	return err == nil
}
