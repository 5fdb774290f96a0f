// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checkpoint decides how long Pods that are to be stopped may still save their work. They
// learn about it from an annotation, and confirm it with another one. gpu-scheduler asks it before
// it preempts Pods, the rescheduler before it moves them.
package checkpoint

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/podwrite"
)

// validity is for how long a request is good after its time is up: a Pod that is stopped later has
// done work since that it should save, too. A request of the future is good for as long: the clock
// of whoever made it may be ahead. Otherwise somebody else has written it, to be waited for for ever.
const validity = 5 * time.Minute

// Pod is a Pod that is to be stopped.
type Pod struct {
	*corev1.Pod
	// Task is the annotations of its task, nil if they are not known.
	Task map[string]string
	// Notice is how long the Pod goes on at least after it was asked for a checkpoint, unless it
	// has saved its work.
	Notice time.Duration
}

// timeout is how long the Pod goes on after it was asked.
func (p *Pod) timeout() time.Duration { return max(Timeout(p.Pod), p.Notice) }

// Last returns when a Pod last saved its work: the later time of its own and its task's annotation.
// It is the zero time if that is not known; text that is not a time is ignored.
func (p *Pod) Last() time.Time {
	own, task := lastOwn(p.Pod), timeIn(p.Task, v1.AnnotationLastCheckpoint)
	if task.After(own) {
		return task
	}
	return own
}

// Before returns what has to happen before Pods are stopped together: which of them are to be asked
// for a checkpoint now, and how long to wait for those of all, unless something changes. They may be
// stopped if it is 0.
func Before(pods []Pod, now time.Time) (ask []*corev1.Pod, wait time.Duration) {
	for i := range pods {
		pod := &pods[i]
		timeout := pod.timeout()
		if timeout <= 0 || !works(pod.Pod) {
			continue
		}
		asked := timeIn(pod.Annotations, v1.AnnotationCheckpointRequested)
		if age := now.Sub(asked); age > timeout+validity || age < -validity {
			ask = append(ask, pod.Pod)
			wait = max(wait, timeout)
			continue
		}
		if !pod.Last().Before(asked) {
			continue // times have a resolution of a second
		}
		wait = max(wait, min(timeout, asked.Add(timeout).Sub(now)))
	}
	return ask, wait
}

// Request returns the patch with which a Pod is asked for a checkpoint.
func Request(pod types.UID, now time.Time) podwrite.Patch {
	return podwrite.Patch{Metadata: podwrite.Metadata{
		UID: pod, Annotations: map[string]string{v1.AnnotationCheckpointRequested: now.UTC().Format(time.RFC3339)},
	}}
}

// Confirm returns the change of a Pod that passes on to it when its task last saved its work: whichever clock that is
// by, a Pod's own annotation is by the clock of its node.
func Confirm(pod *corev1.Pod, saved time.Time) podwrite.Metadata {
	return podwrite.Metadata{Annotations: map[string]string{
		v1.AnnotationLastCheckpoint: podfacts.NodeTime(pod, saved).UTC().Format(time.RFC3339),
	}}
}

// IsRequested reports whether a Pod was asked for a checkpoint that it has not confirmed itself.
func IsRequested(pod *corev1.Pod) bool {
	asked := timeIn(pod.Annotations, v1.AnnotationCheckpointRequested)
	return !asked.IsZero() && lastOwn(pod).Before(asked)
}

// lastOwn returns when a Pod last saved its work as it says itself, by the clock of its node.
func lastOwn(pod *corev1.Pod) time.Time {
	return podfacts.ServerTime(pod, timeIn(pod.Annotations, v1.AnnotationLastCheckpoint))
}

// LastOf returns when a task last saved its work by its own annotation, the zero time if that is not known.
func LastOf(task *v1.GPUTask) time.Time { return timeIn(task.Annotations, v1.AnnotationLastCheckpoint) }

// Since returns when the work began that is lost if a Pod is stopped now: when it started, or at
// its last checkpoint.
func (p *Pod) Since(now time.Time) time.Time {
	since := podfacts.Started(p.Pod)
	if saved := p.Last(); saved.After(since) && !saved.After(now) {
		return saved
	}
	return since
}

// works reports whether a Pod has work to save.
func works(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && podfacts.OutcomeOf(pod) == podfacts.Running && podfacts.WorkEnd(pod) == nil
}

// Timeout returns how long a Pod may take for a checkpoint, 0 if it is not to be asked for one.
func Timeout(pod *corev1.Pod) time.Duration {
	seconds, err := strconv.ParseInt(pod.Annotations[v1.AnnotationCheckpointTimeout], 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(min(seconds, MaxTimeoutSeconds)) * time.Second
}

// MaxTimeoutSeconds is the limit of a task's checkpoint.timeoutSeconds, which holds for the
// annotation of any Pod.
const MaxTimeoutSeconds = 3600

// timeIn returns the time in an annotation, the zero time if there is none. A time in the API has a
// resolution of a second.
func timeIn(annotations map[string]string, name string) time.Time {
	at, err := time.Parse(time.RFC3339, annotations[name])
	if err != nil {
		return time.Time{}
	}
	return at.Truncate(time.Second)
}
