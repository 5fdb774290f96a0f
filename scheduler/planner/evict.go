// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/disruption"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/podwrite"
	"falldio.github.io/gpu-controller/pkg/preemption"
)

// evictLimit bounds how long the API server may take for one Pod.
const evictLimit = 30 * time.Second

// maxStops is how often a victim that keeps changing is tried to be stopped.
const maxStops = 5

// evictVictims stops Pods to make room for a preemptor, once they have saved their work. Who has ended until then is no victim.
// The PodDisruptionBudgets are listed again: the wait may have been long.
func (p *Planner) evictVictims(ctx context.Context, group string, preemptor *corev1.Pod, victims []*corev1.Pod, taken *preemption.Queues) {
	defer p.preemptions.end(group)
	stillNeeded, err := p.awaitCheckpoints(ctx, preemptor, victims, taken)
	running, refused := p.running(victims), ""
	if err == nil && stillNeeded {
		refused, err = p.askBudgets(ctx, running)
	}
	switch {
	case err != nil:
		p.logger.Error(err, "Pods are preempted later", "for", klog.KObj(preemptor))
	case refused != "":
		p.logger.Info("Pods are preempted later", "for", klog.KObj(preemptor), "why", refused)
	}
	if err != nil || refused != "" || !stillNeeded || !p.term.MayAct() {
		if p.claims.abandon(group, podUIDs(victims)) {
			p.wake()
		}
		p.spare(preemptor, victims)
		return
	}
	p.forget(without(victims, running))
	p.stopAll(ctx, preemptor, running, taken)
}

// running returns those of some Pods, as they are now, that have neither ended nor been deleted.
func (p *Planner) running(pods []*corev1.Pod) (list []*corev1.Pod) {
	for _, one := range p.present(pods, nil) {
		if isRunning(one.Pod) {
			list = append(list, one.Pod)
		}
	}
	return list
}

func isRunning(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !podfacts.Ended(pod) }

// without returns the Pods that are not among others.
func without(pods, others []*corev1.Pod) (rest []*corev1.Pod) {
	uids := podUIDs(others)
	for _, pod := range pods {
		if !slices.Contains(uids, pod.UID) {
			rest = append(rest, pod)
		}
	}
	return rest
}

// askBudgets returns which PodDisruptionBudget, as the API server has them, does not allow that all of the Pods are stopped;
// empty if all do. The API for evictions answers for one Pod at a time: a gang of which it refuses the second one would be
// torn apart.
func (p *Planner) askBudgets(ctx context.Context, pods []*corev1.Pod) (refused string, err error) {
	ctx, cancel := context.WithTimeout(ctx, evictLimit)
	defer cancel()
	listed := map[string]bool{}
	var list []*policyv1.PodDisruptionBudget
	for _, pod := range pods {
		if listed[pod.Namespace] {
			continue
		}
		listed[pod.Namespace] = true
		found, err := p.handle.ClientSet().PolicyV1().PodDisruptionBudgets(pod.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", fmt.Errorf("reading PodDisruptionBudgets: %w", err)
		}
		for i := range found.Items {
			list = append(list, &found.Items[i])
		}
	}
	budgets := disruption.NewBudgets(list)
	p.pending.SubtractOthers(budgets, podUIDs(pods), p.clock.Now())
	return budgets.Exceeded(pods), nil
}

// stopAll stops Pods. If one can't be stopped now, no further gang is begun.
func (p *Planner) stopAll(ctx context.Context, preemptor *corev1.Pod, victims []*corev1.Pod, taken *preemption.Queues) {
	var spared []*corev1.Pod
	begun := map[string]bool{}
	for _, victim := range victims {
		gang := cmp.Or(p.registry.GangOf(victim.UID), string(victim.UID))
		if len(spared) > 0 && !begun[gang] {
			spared = append(spared, victim)
			continue
		}
		switch stopped, err := p.stop(ctx, preemptor, victim); {
		case err != nil:
			p.logger.Error(err, "Preempting a Pod failed", "pod", klog.KObj(victim), "for", klog.KObj(preemptor))
			spared = append(spared, victim)
		case stopped:
			begun[gang] = true
			p.pending.Deleted(victim.UID, p.clock.Now())
			p.metrics.victims.Inc()
			p.reportEviction(preemptor, victim, taken)
		default:
			p.forget([]*corev1.Pod{victim})
		}
	}
	if len(spared) > 0 {
		p.spare(preemptor, spared)
	}
}

// spare lets victims stay for now; the next attempt decides again.
func (p *Planner) spare(preemptor *corev1.Pod, victims []*corev1.Pod) {
	p.forget(victims)
	p.activate([]*corev1.Pod{preemptor})
}

// forget records that Pods are not stopped after all.
func (p *Planner) forget(victims []*corev1.Pod) {
	p.do(p.registry.MarkTerminating(podUIDs(victims), false))
	p.pending.Cancel(podUIDs(victims))
}

// stop deletes a Pod with the condition that it is preempted, in a version in which it has not ended. stopped is false if
// there is nothing to stop any more.
func (p *Planner) stop(ctx context.Context, preemptor, victim *corev1.Pod) (stopped bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, evictLimit)
	defer cancel()
	for range maxStops {
		err = p.stopVersion(ctx, preemptor, victim)
		switch {
		case podwrite.IsGone(err):
			return false, nil
		case !apierrors.IsConflict(err):
			return err == nil, err
		}
		now, getErr := p.handle.ClientSet().CoreV1().Pods(victim.Namespace).Get(ctx, victim.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(getErr):
			return false, nil
		case getErr != nil:
			return false, fmt.Errorf("reading it: %w", getErr)
		case now.UID != victim.UID || !isRunning(now):
			return false, nil
		}
		victim = now
	}
	return false, err
}

// stopVersion deletes a version of a Pod.
func (p *Planner) stopVersion(ctx context.Context, preemptor, victim *corev1.Pod) error {
	pods := p.handle.ClientSet().CoreV1().Pods(victim.Namespace)
	patch, err := disruptionPatch(preemptor, victim, p.clock.Now())
	if err != nil {
		return err
	}
	marked, err := pods.Patch(ctx, victim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("marking it: %w", err)
	}
	if err := pods.Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: podwrite.SameVersion(marked)}); err != nil {
		return fmt.Errorf("deleting it: %w", err)
	}
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
// did not fail: the condition that kube-scheduler sets. It applies to this version of the Pod only:
// in a later one it may have ended.
func disruptionPatch(preemptor, victim *corev1.Pod, now time.Time) ([]byte, error) {
	return podwrite.Patch{Metadata: podwrite.Metadata{UID: victim.UID, ResourceVersion: victim.ResourceVersion}, Status: &podwrite.Status{Conditions: []corev1.PodCondition{{
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
