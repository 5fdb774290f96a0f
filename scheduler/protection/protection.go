// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package protection keeps kube-scheduler's own preemption from breaking gangs, and Pods that preempt others
// from waiting for an event that has passed.
package protection

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"falldio.github.io/gpu-controller/scheduler/planner"
)

// Protect keeps kube-scheduler's own preemption, which acts for Pods without GPUs and
// considers one Pod at a time, from taking members that a gang needs, unless it is for a critical
// system Pod: then the others of the gang leave, too. Preemptors whose victims are gone are tried
// again. It must be called before the scheduler runs.
func Protect(running *scheduler.Scheduler, shared *planner.Shared) {
	for _, one := range running.Profiles {
		for _, plugin := range one.EnqueueExtensions() {
			if preempting, found := plugin.(*defaultpreemption.DefaultPreemption); found {
				preempting.IsEligiblePod = func(node fwk.NodeInfo, victim preemption.Victim, preemptor *corev1.Pod) bool {
					return mayLeave(shared.Get(), node, victim, preemptor)
				}
				preempting.Executor.PreemptPod = orRetried(running.Cache, asWhole(shared, preempting.Executor.PreemptPod))
			}
		}
	}
}

func mayLeave(plans *planner.Planner, node fwk.NodeInfo, victim preemption.Victim, preemptor *corev1.Pod) bool {
	for _, one := range victim.Pods() {
		if plans != nil && !plans.Evictor().MayLeave(node, one.GetPod(), preemptor) {
			return false
		}
	}
	return true
}

// preempt stops a Pod for another one: see preemption.Executor.
type preempt = func(ctx context.Context, c preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *corev1.Pod, plugin string) (inMemory bool, err error)

// asWhole stops, after a victim, the others of gangs that need one of the victims.
func asWhole(shared *planner.Shared, stop preempt) preempt {
	return func(ctx context.Context, c preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *corev1.Pod, plugin string) (inMemory bool, err error) {
		plans, pod := shared.Get(), podOf(preemptor)
		if plans == nil || pod == nil {
			return stop(ctx, c, preemptor, victim, plugin)
		}
		others := plans.Evictor().Break(c.Victims().Pods) // none the next time
		inMemory, err = stop(ctx, c, preemptor, victim, plugin)
		switch {
		case len(others) == 0:
		case err != nil:
			plans.Evictor().Stay(append(others, c.Victims().Pods...))
		default:
			plans.Evictor().LeaveWith(ctx, pod, others)
		}
		return inMemory, err
	}
}

// podCache is what of kube-scheduler's cache is used.
type podCache interface {
	GetPod(pod *corev1.Pod) (*corev1.Pod, error)
}

// orRetried has a preemptor tried again if nothing else will wake it. While kube-scheduler stops victims, it
// keeps the preemptor out of its queue whatever happens; the deletion of the last victim is to wake it
// afterwards. If that has been handled before, because others have deleted the victim, or an earlier attempt
// that the snapshot did not show yet, the preemptor would wait for five minutes. A victim that is still in the
// cache wakes it later; until then another attempt would preempt Pods for nothing. kube-scheduler does try a
// preemptor again whose last victim was preempted in memory only, so that is what it is told here.
// See https://github.com/kubernetes/kubernetes/issues/141694.
func orRetried(pods podCache, stop preempt) preempt {
	return func(ctx context.Context, c preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *corev1.Pod, plugin string) (inMemory bool, err error) {
		inMemory, err = stop(ctx, c, preemptor, victim, plugin)
		isCached := func(pod *corev1.Pod) bool { _, err := pods.GetPod(pod); return err == nil }
		return inMemory || !slices.ContainsFunc(c.Victims().Pods, isCached), err
	}
}

// podOf returns the Pod that preempts others, the first one of a group of Pods; nil if there is none.
func podOf(preemptor preemption.ExecutorPreemptor) *corev1.Pod {
	pods := preemptor.Pods()
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		return pods[name]
	}
	return nil
}
