// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package unschedulable

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podwrite"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

// writeLeader writes the reason into the annotation of a gang's leader, if that is due and limit allows it, and
// returns how many more Pods may be written. done is false if it has to be looked at again.
func (r *Reporter) writeLeader(ctx context.Context, one *report, limit int) (left int, done bool) {
	leader := r.Gangs.Leader(one.gang)
	switch {
	case leader == nil || one.isOn(leader):
		return limit, true
	case limit == 0 || r.Clock.Since(one.since) < settleOf(one.reason.Reason) || r.Clock.Since(one.annotatedAt) < leaderPeriod:
		return limit, false
	}
	if err := r.Annotate(ctx, leader, one.gang, nil); err != nil {
		klog.FromContext(ctx).Error(err, "Why a Pod waits could not be written; trying again", "pod", klog.KObj(leader))
		return limit - 1, false
	}
	return limit - 1, true
}

// settleOf returns how long a gang has to wait before its leader is written. Until then it seems to wait its turn,
// which is wrong about what waits for a change and not for others to end.
func settleOf(cause v1.WaitingCause) time.Duration {
	switch cause {
	case v1.WaitsForever, v1.WaitsForClosedNodes, v1.WaitsForExternal, v1.WaitsForQueueAccess, v1.WaitsForChange:
		return settle
	default:
		return leaderSettle
	}
}

// isOn reports whether a gang's leader has the reason.
func (o *report) isOn(leader *corev1.Pod) bool {
	if o.leader == leader.UID && o.onLeader == o.reason {
		return true
	}
	published := waitingreason.Published(leader)
	return published != nil && waitingreason.Same(published, o.reason)
}

// Annotate writes annotations into the leader of a gang and, with them, why it waits, if the Pod does not say that yet:
// so that takes no request of its own. The subresource status is the only part of a Pod that a scheduler may change.
func (r *Reporter) Annotate(ctx context.Context, leader *corev1.Pod, gang string, annotations map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	reason, all := r.unwritten(gang, leader), map[string]string{}
	maps.Copy(all, annotations)
	if reason != nil {
		all[v1.AnnotationWaitingReason] = waitingreason.Encode(reason)
	}
	patch, err := podwrite.Patch{Metadata: podwrite.Metadata{UID: leader.UID, Annotations: all}}.Bytes()
	if err == nil {
		_, err = r.Client.CoreV1().Pods(leader.Namespace).Patch(ctx, leader.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !podwrite.IsGone(err) {
		return err
	}
	r.annotated(gang, leader, reason)
	return nil
}

// unwritten returns the reason why a gang waits that its leader does not have yet; nil if there is none.
func (r *Reporter) unwritten(gang string, leader *corev1.Pod) *v1.WaitingReason {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.reports[gang]; one != nil && !one.isOn(leader) {
		return one.reason
	}
	return nil
}

// annotated records that the leader of a gang has a reason; nil for none.
func (r *Reporter) annotated(gang string, leader *corev1.Pod, reason *v1.WaitingReason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.reports[gang]; one != nil && reason != nil {
		one.leader, one.onLeader, one.annotatedAt = leader.UID, reason, r.Clock.Now()
	}
}
