// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/podwrite"
	"falldio.github.io/gpu-controller/pkg/preemption"
)

// evictLimit bounds how long the API server may take for one Pod.
const evictLimit = 30 * time.Second

// evictVictims deletes Pods to make room for a preemptor, once they have saved their work.
func (p *Planner) evictVictims(ctx context.Context, group string, preemptor *corev1.Pod, victims []*corev1.Pod, taken *preemption.Queues) {
	defer p.preemptions.end(group)
	stillNeeded, err := p.awaitCheckpoints(ctx, preemptor, victims, taken)
	if err != nil {
		p.logger.Error(err, "Pods are preempted later", "for", klog.KObj(preemptor))
	}
	if err != nil || !stillNeeded {
		p.spare(preemptor, victims)
		return
	}
	for i, victim := range victims {
		if err := p.evictVictim(ctx, preemptor, victim, taken); err != nil {
			p.logger.Error(err, "Preempting a Pod failed", "pod", klog.KObj(victim), "for", klog.KObj(preemptor))
			p.spare(preemptor, victims[i:])
			return
		}
		p.pending.Deleted(victim.UID, p.clock.Now())
	}
}

// spare lets victims stay for now; the next attempt decides again.
func (p *Planner) spare(preemptor *corev1.Pod, victims []*corev1.Pod) {
	p.do(p.registry.MarkTerminating(podUIDs(victims), false))
	p.pending.Cancel(podUIDs(victims))
	p.activate([]*corev1.Pod{preemptor})
}

func (p *Planner) evictVictim(ctx context.Context, preemptor, victim *corev1.Pod, taken *preemption.Queues) error {
	ctx, cancel := context.WithTimeout(ctx, evictLimit)
	defer cancel()
	pods := p.handle.ClientSet().CoreV1().Pods(victim.Namespace)
	patch, err := disruptionPatch(preemptor, victim, p.clock.Now())
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, victim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !podwrite.IsGone(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("marking it: %w", err)
	}
	err = pods.Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting it: %w", err)
	}
	p.reportEviction(preemptor, victim, taken)
	return nil
}

// reportEviction tells a victim's owner why it was stopped.
func (p *Planner) reportEviction(preemptor, victim *corev1.Pod, taken *preemption.Queues) {
	events := p.handle.EventRecorder().WithLogger(p.logger)
	if taken != nil {
		if borrowed, found := taken.Borrowed(victim); found {
			events.Eventf(victim, preemptor, corev1.EventTypeNormal, "Reclaimed", "Preempting",
				"Stopped because queue %s had borrowed its GPUs, which another queue is guaranteed and needs now", borrowed.Queue)
			return
		}
	}
	events.Eventf(victim, preemptor, corev1.EventTypeNormal, "Preempted", "Preempting",
		"Preempted by Pod %s of priority %d", klog.KObj(preemptor), schedulingv1.PodPriority(preemptor))
}

// disruptionPatch returns the patch of a victim's status that shows controllers that it
// did not fail: the condition that kube-scheduler sets. It applies to this Pod only, not
// to another one of the same name.
func disruptionPatch(preemptor, victim *corev1.Pod, now time.Time) ([]byte, error) {
	return podwrite.Patch{Metadata: podwrite.Metadata{UID: victim.UID}, Status: &podwrite.Status{Conditions: []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		Message:            preemptor.Spec.SchedulerName + ": preempting to accommodate a higher priority pod",
		LastTransitionTime: metav1.NewTime(now),
	}}}}.Bytes()
}

// evictPartial evicts the Pods of incomplete gangs, which hold places to no use. All of
// them stop counting before the first one is evicted: otherwise members that wait would
// take the places of the first ones, and the gang would stay incomplete.
// PodDisruptionBudgets are respected.
func (p *Planner) evictPartial(ctx context.Context, stuck []*corev1.Pod) {
	p.registry.MarkTerminating(podUIDs(stuck), true)
	for _, one := range stuck {
		p.handle.EventRecorder().WithLogger(p.logger).Eventf(one, nil, corev1.EventTypeWarning, "PartialGang", "Evicting",
			"Other Pods of its gang could not be placed for %s", time.Duration(p.args.PartialGangTimeoutSeconds)*time.Second)
		if err := p.evict(ctx, one); err != nil {
			p.do(p.registry.MarkTerminating([]types.UID{one.UID}, false))
			p.logger.Info("A Pod of an incomplete gang stays for now", "pod", klog.KObj(one), "err", err)
		}
	}
}

func (p *Planner) evict(ctx context.Context, one *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, evictLimit)
	defer cancel()
	err := p.handle.ClientSet().CoreV1().Pods(one.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: one.Namespace, Name: one.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(one.UID))},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
