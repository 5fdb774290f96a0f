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

// Reasons why the API server rejects a Pod, as in the condition PodsCreated.
const (
	reasonPriorityClassNotFound = "PriorityClassNotFound"
	reasonQuotaExceeded         = "QuotaExceeded"
	reasonForbidden             = "Forbidden"
	reasonPodRefused            = "PodRefused"
	reasonPodNameTaken          = "PodNameTaken"
	reasonOldPodStops           = gputask.ReasonOldPodStops
)

// obstacleFrom explains to the task's user why the API server rejected a Pod. It returns
// nil for errors that are not about the task, such as an API server that can't be reached
// or is overloaded.
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
	default: // an admission webhook rejects the Pod, or can't be reached
		return &gputask.Obstacle{Reason: reasonPodRefused, Message: "the API server refuses the Pod: " + text}
	}
}

// invalidPod returns a permanent obstacle if fields of the Pod are invalid, since the
// template is immutable. An admission policy names no field, and may change.
func invalidPod(err error, text string) *gputask.Obstacle {
	fields := invalidFields(err)
	if len(fields) == 0 {
		return &gputask.Obstacle{Reason: reasonPodRefused, Message: "the API server refuses the Pod: " + text}
	}
	return &gputask.Obstacle{Reason: v1.ReasonInvalidPod, Permanent: true,
		Message: "the Pod from spec.template is not valid: " + strings.Join(fields, "; ")}
}

// invalidFields returns the invalid fields and why they are, or nothing if one of the
// causes is not about a field.
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

// nameConflict returns what to do about an existing Pod that has the name of a task's Pod.
// It returns nil if the Pod is the task's own.
func nameConflict(task *v1.GPUTask, pod *corev1.Pod) *gputask.Obstacle {
	owner := metav1.GetControllerOf(pod)
	var message string
	switch {
	case metav1.IsControlledBy(pod, task) && pod.Labels[v1.LabelApp] == v1.LabelAppValue:
		return nil
	case metav1.IsControlledBy(pod, task):
		message = fmt.Sprintf("Pod %q has lost its label %s=%s: restore the label or delete the Pod", pod.Name, v1.LabelApp, v1.LabelAppValue)
	case pod.DeletionTimestamp != nil, gputask.ControllerOf(pod) != nil && owner.Name == task.Name:
		return &gputask.Obstacle{Reason: reasonOldPodStops, Message: fmt.Sprintf("waiting for the Pod %q of a previous task to stop", pod.Name)}
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

// obstacleCache holds the obstacle to creating each task's Pods, as of the last attempt. It
// need not survive the process: the next attempt finds out again.
type obstacleCache struct {
	mu     sync.Mutex
	byTask map[cache.ObjectName]cachedObstacle
}

type cachedObstacle struct {
	task     types.UID
	obstacle gputask.Obstacle
}

func newObstacleCache() *obstacleCache {
	return &obstacleCache{byTask: map[cache.ObjectName]cachedObstacle{}}
}

func (m *obstacleCache) set(key cache.ObjectName, task types.UID, obstacle gputask.Obstacle) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byTask[key] = cachedObstacle{task: task, obstacle: obstacle}
}

// get returns the obstacle of a task, nil if there is none. A task that was recreated under
// the same name starts without one.
func (m *obstacleCache) get(key cache.ObjectName, task types.UID) *gputask.Obstacle {
	m.mu.Lock()
	defer m.mu.Unlock()
	cached, found := m.byTask[key]
	if !found || cached.task != task {
		return nil
	}
	return &cached.obstacle
}

// clear removes a task's obstacle and reports whether there was one.
func (m *obstacleCache) clear(key cache.ObjectName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found := m.byTask[key]
	delete(m.byTask, key)
	return found
}
