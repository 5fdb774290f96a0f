// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// Reasons why the API server refuses a Pod, as the condition PodsCreated gives
// them.
const (
	reasonPriorityClassNotFound = "PriorityClassNotFound"
	reasonQuotaExceeded         = "QuotaExceeded"
	reasonForbidden             = "Forbidden"
	reasonPodRefused            = "PodRefused"
	reasonPodNameTaken          = "PodNameTaken"
	reasonOldPodStops           = gputask.ReasonOldPodStops
)

// obstacleFrom turns the API server's refusal of a Pod into words for the
// task's user. It returns nil for errors that say nothing about the task, such
// as an API server that can't be reached or is overloaded.
func obstacleFrom(err error, pod *corev1.Pod) *gputask.Obstacle {
	text := apierror.Message(err)
	switch {
	case apierror.IsTransient(err):
		return nil
	case apierrors.IsInvalid(err):
		return invalidPod(err, text)
	case strings.Contains(text, "no PriorityClass with name"):
		return &gputask.Obstacle{Reason: reasonPriorityClassNotFound,
			Message: fmt.Sprintf("there is no PriorityClass %q: create it, or recreate the task with another spec.priority", pod.Spec.PriorityClassName)}
	case strings.Contains(text, "exceeded quota"):
		return &gputask.Obstacle{Reason: reasonQuotaExceeded, Message: afterColon(text)}
	case apierrors.IsForbidden(err):
		return &gputask.Obstacle{Reason: reasonForbidden, Message: afterColon(text)}
	default: // an admission webhook that refuses, or that can't be reached
		return &gputask.Obstacle{Reason: reasonPodRefused, Message: "the API server refuses the Pod: " + text}
	}
}

// invalidPod is permanent if fields of the Pod are wrong, since the template
// can't change. An admission policy names no field, and may change.
func invalidPod(err error, text string) *gputask.Obstacle {
	fields := invalidFields(err)
	if len(fields) == 0 {
		return &gputask.Obstacle{Reason: reasonPodRefused, Message: "the API server refuses the Pod: " + text}
	}
	return &gputask.Obstacle{Reason: v1.ReasonInvalidPod, Permanent: true,
		Message: "the Pod from spec.template is not valid: " + strings.Join(fields, "; ")}
}

// invalidFields returns the fields that are wrong and why, or nothing if one of
// the causes is not about a field.
func invalidFields(err error) []string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "" {
			return nil
		}
		fields = append(fields, cause.Field+": "+cause.Message)
	}
	return fields
}

// nameClash says what to do about a Pod that stands where a task's Pod should
// be. It returns nil if the Pod is the task's own.
func nameClash(task *v1.GPUTask, pod *corev1.Pod) *gputask.Obstacle {
	owner := metav1.GetControllerOf(pod)
	var message string
	switch {
	case metav1.IsControlledBy(pod, task) && pod.Labels[v1.LabelApp] == v1.LabelAppValue:
		return nil
	case metav1.IsControlledBy(pod, task):
		message = fmt.Sprintf("Pod %q has lost its label %s=%s: restore the label or delete the Pod", pod.Name, v1.LabelApp, v1.LabelAppValue)
	case pod.DeletionTimestamp != nil, owningTask(pod) != nil && owner.Name == task.Name:
		return &gputask.Obstacle{Reason: reasonOldPodStops, Message: fmt.Sprintf("waiting for the Pod %q of a former task to stop", pod.Name)}
	case owner != nil:
		message = fmt.Sprintf("a Pod named %q exists already and belongs to %s %q: recreate this task under another name", pod.Name, owner.Kind, owner.Name)
	default:
		message = fmt.Sprintf("a Pod named %q exists already and does not belong to this task: delete that Pod, or recreate the task under another name", pod.Name)
	}
	return &gputask.Obstacle{Reason: reasonPodNameTaken, Message: message}
}

// afterColon drops the API server's preamble `pods "x" is forbidden: `.
func afterColon(text string) string {
	if _, rest, found := strings.Cut(text, ": "); found {
		return rest
	}
	return text
}

// obstacleMemory keeps what stood in the way of each task's Pods at the last
// try. It need not outlive the process: the next try finds out again.
type obstacleMemory struct {
	mu     sync.Mutex
	byTask map[cache.ObjectName]rememberedObstacle
}

type rememberedObstacle struct {
	task     types.UID
	obstacle gputask.Obstacle
}

func newObstacleMemory() *obstacleMemory {
	return &obstacleMemory{byTask: map[cache.ObjectName]rememberedObstacle{}}
}

func (m *obstacleMemory) remember(key cache.ObjectName, task types.UID, obstacle gputask.Obstacle) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byTask[key] = rememberedObstacle{task: task, obstacle: obstacle}
}

// of returns the obstacle of a task, nil for none. A task of the same name
// that was recreated starts without.
func (m *obstacleMemory) of(key cache.ObjectName, task types.UID) *gputask.Obstacle {
	m.mu.Lock()
	defer m.mu.Unlock()
	remembered, found := m.byTask[key]
	if !found || remembered.task != task {
		return nil
	}
	return &remembered.obstacle
}

// clear forgets a task's obstacle and reports whether there was one.
func (m *obstacleMemory) clear(key cache.ObjectName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found := m.byTask[key]
	delete(m.byTask, key)
	return found
}
