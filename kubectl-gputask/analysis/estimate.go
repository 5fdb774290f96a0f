// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// EstimatedStart returns when gpu-scheduler expects waiting Pods to start: of several estimates, that of the Pod that
// is served first. Without any on the Pods, it is that of their task's status, which is written later. It is nil if
// there is none; the task may be nil.
func EstimatedStart(task *v1.GPUTask, pods []*corev1.Pod) *v1.StartEstimate {
	var first *v1.StartEstimate
	for _, pod := range pods {
		one := estimateOn(pod)
		if one != nil && (first == nil || one.Position < first.Position) {
			first = one
		}
	}
	if first == nil && task != nil && !gputask.IsFinished(task) {
		return task.Status.EstimatedStart
	}
	return first
}

// estimateOn returns the estimate on a waiting Pod; nil if it has none, or one that can't be read.
func estimateOn(pod *corev1.Pod) *v1.StartEstimate {
	if pod.Spec.NodeName != "" {
		return nil
	}
	return gputask.StartEstimateOf(pod)
}

// endOfTask returns when a task that runs will have ended at the latest; known is false if nothing bounds it.
func endOfTask(task *v1.GPUTask) (at time.Time, known bool) {
	if gputask.IsFinished(task) {
		return time.Time{}, false
	}
	if deadline := task.Spec.ActiveDeadlineSeconds; deadline != nil && task.Status.StartTime != nil {
		at, known = task.Status.StartTime.Add(seconds(*deadline)), true
	}
	if limit, _ := gputask.RuntimeLimit(&task.Spec, &task.Status); limit > 0 && task.Status.RunningSince != nil {
		end := task.Status.RunningSince.Add(limit - seconds(task.Status.PastRuntimeSeconds))
		if !known || end.Before(at) {
			at, known = end, true
		}
	}
	return at, known
}

// endOfPod returns when a Pod of another controller will have ended by what it declares.
func endOfPod(pod *corev1.Pod) (at time.Time, known bool) {
	limit := gpuqueue.MaxRuntime(pod)
	if limit == 0 || pod.Status.StartTime == nil {
		return time.Time{}, false
	}
	return podfacts.FirstStarted(pod).Add(limit), true
}

func seconds(number int64) time.Duration { return time.Duration(number) * time.Second }
