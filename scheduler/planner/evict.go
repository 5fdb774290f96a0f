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
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// evictLimit bounds how long the API server may take for one Pod.
const evictLimit = 30 * time.Second

// evictVictims deletes Pods for the sake of another one.
func (p *Planner) evictVictims(group string, preemptor *corev1.Pod, victims []*corev1.Pod) {
	defer p.preemptions.end(group)
	for i, victim := range victims {
		if err := p.evictVictim(preemptor, victim); err != nil {
			// The rest stays; the next attempt decides anew.
			p.registry.Doom(podUIDs(victims[i:]), false)
			p.logger.Error(err, "Preempting a Pod failed", "pod", klog.KObj(victim), "for", klog.KObj(preemptor))
			p.activate([]*corev1.Pod{preemptor})
			return
		}
	}
}

func (p *Planner) evictVictim(preemptor, victim *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(context.Background(), evictLimit)
	defer cancel()
	client := p.handle.ClientSet()
	status := victim.Status.DeepCopy()
	if pod.UpdatePodCondition(status, &corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		Message:            fmt.Sprintf("%s: preempting to accommodate a higher priority pod", preemptor.Spec.SchedulerName),
		ObservedGeneration: pod.CalculatePodConditionObservedGeneration(&victim.Status, victim.Generation, corev1.DisruptionTarget),
	}) {
		if err := util.PatchPodStatus(ctx, client, victim.Name, victim.Namespace, &victim.Status, status); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("marking it: %w", err)
		}
	}
	err := client.CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting it: %w", err)
	}
	p.handle.EventRecorder().WithLogger(p.logger).Eventf(victim, preemptor, corev1.EventTypeNormal, "Preempted", "Preempting",
		"Preempted by Pod %s of priority %d", klog.KObj(preemptor), schedulingv1.PodPriority(preemptor))
	return nil
}

// evictPartial makes the Pods of incomplete gangs leave that keep places without
// being of use. Budgets are respected.
func (p *Planner) evictPartial(ctx context.Context, stuck []*corev1.Pod) {
	for _, one := range stuck {
		p.handle.EventRecorder().WithLogger(p.logger).Eventf(one, nil, corev1.EventTypeWarning, "PartialGang", "Evicting",
			"Other Pods of its gang have found no place for %s", time.Duration(p.args.PartialGangTimeoutSeconds)*time.Second)
		limited, cancel := context.WithTimeout(ctx, evictLimit)
		err := p.handle.ClientSet().CoreV1().Pods(one.Namespace).EvictV1(limited, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: one.Namespace, Name: one.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(one.UID))},
		})
		cancel()
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			p.logger.Info("A Pod of an incomplete gang stays for now", "pod", klog.KObj(one), "err", err)
		}
	}
}
