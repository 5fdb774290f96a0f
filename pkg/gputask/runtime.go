// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// RuntimeLimit returns for how long a task may be Running, all its runs together: by its spec, or by its
// GPUQueue if that allows less. It is 0 if there is no limit. queue is the GPUQueue whose limit it is; empty for
// the spec's.
func RuntimeLimit(spec *v1.GPUTaskSpec, status *v1.GPUTaskStatus) (limit time.Duration, queue string) {
	if declared := spec.MaxRuntimeSeconds; declared != nil {
		limit = time.Duration(*declared) * time.Second
	}
	if queued := status.QueueRuntime; queued != nil {
		if allowed := time.Duration(queued.MaxSeconds) * time.Second; limit == 0 || allowed < limit {
			return allowed, queued.Queue
		}
	}
	return limit, ""
}

// checkRuntime fails a task that has been running for longer than it may.
func (d *decision) checkRuntime() {
	if d.status.RunningSince == nil || d.isFailing() || d.hasSucceeded() {
		return
	}
	d.raiseQueueRuntime()
	limit, queue := RuntimeLimit(&d.Task.Spec, d.status)
	if limit == 0 {
		return
	}
	left := limit - runtimeOf(d.status, d.Now)
	if left > 0 {
		d.requeueAfter(left)
		return
	}
	source := "spec.maxRuntimeSeconds"
	if queue != "" {
		source = "maxRuntimeSeconds of GPUQueue " + queue
	}
	d.setFailureTarget(v1.ReasonMaxRuntimeExceeded, fmt.Sprintf("not finished after running for %d s (%s)", int64(limit.Seconds()), source))
}

// raiseQueueRuntime takes over what the task's queue says now if that is more than when the run began. A lower limit is
// not for what runs already: nobody could have known it.
func (d *decision) raiseQueueRuntime() {
	now, began := d.QueueRuntime, d.status.QueueRuntime
	if now != nil && began != nil && (now.MaxSeconds == 0 || now.MaxSeconds > began.MaxSeconds) {
		d.recordQueueRuntime()
	}
}

// recordQueueRuntime has the limit of the task's queue count for the present run, if it is known.
func (d *decision) recordQueueRuntime() {
	switch {
	case d.QueueRuntime == nil:
	case d.QueueRuntime.MaxSeconds == 0:
		d.status.QueueRuntime = nil
	default:
		d.status.QueueRuntime = d.QueueRuntime.DeepCopy()
	}
}

// recordRuntime begins or ends a run, depending on the phase that was decided on.
func (d *decision) recordRuntime() {
	switch runs := d.status.Phase == v1.PhaseRunning; {
	case runs && d.status.RunningSince == nil:
		d.status.RunningSince = d.now()
		d.recordQueueRuntime()
		if limit, _ := RuntimeLimit(&d.Task.Spec, d.status); limit > 0 {
			d.requeueAfter(limit - time.Duration(d.status.PastRuntimeSeconds)*time.Second)
		}
	case !runs && d.status.RunningSince != nil:
		d.status.PastRuntimeSeconds = int64(runtimeOf(d.status, d.Now).Seconds())
		d.status.RunningSince = nil
	}
}

// runtimeOf returns for how long a task has been running, all its runs together.
func runtimeOf(status *v1.GPUTaskStatus, now time.Time) time.Duration {
	past := time.Duration(status.PastRuntimeSeconds) * time.Second
	if status.RunningSince == nil {
		return past
	}
	return past + max(now.Sub(status.RunningSince.Time), 0)
}

// noMaxRuntime is the value of the annotation AnnotationMaxRuntime of a Pod whose task has had a limit.
const noMaxRuntime = "0"

// runtimeAnnotations returns what a Pod declares of its task's run time: what is left of it, given for how many seconds
// the task had been running before the Pod was created. What the task's queue says is not yet certain: it may change
// before the Pod runs.
func runtimeAnnotations(declared *int64, past int64) map[string]string {
	if declared == nil {
		return nil
	}
	annotations := map[string]string{v1.AnnotationMaxRuntime: strconv.FormatInt(max(*declared-past, 1), 10)}
	if past > 0 {
		annotations[v1.AnnotationPastRuntime] = strconv.FormatInt(past, 10)
	}
	return annotations
}

// RuntimeChange is a Pod that declares another run time than its task, and the annotations that change
// that.
type RuntimeChange struct {
	Pod         *corev1.Pod
	Annotations map[string]string
}

// declareRuntimes has the Pods declare what the task says now: the scheduler looks at Pods only.
func (d *decision) declareRuntimes() {
	for _, pod := range d.Pods {
		state := outcomeOf(pod)
		if !state.isActive() || state == podTerminating {
			continue
		}
		now, declares := pod.Annotations[v1.AnnotationMaxRuntime]
		past := d.Task.Status.PastRuntimeSeconds // about, for a Pod that declares nothing
		if declares {
			past, _ = strconv.ParseInt(pod.Annotations[v1.AnnotationPastRuntime], 10, 64) // absent: 0
		}
		wanted := runtimeAnnotations(d.Task.Spec.MaxRuntimeSeconds, past)
		if wanted == nil && declares {
			wanted = map[string]string{v1.AnnotationMaxRuntime: noMaxRuntime}
		}
		if wanted[v1.AnnotationMaxRuntime] != now {
			d.plan.Declare = append(d.plan.Declare, RuntimeChange{Pod: pod, Annotations: wanted})
		}
	}
}
