// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// Reasons why the API server rejects a Pod, as in the condition PodsCreated.
const (
	reasonPriorityClassNotFound = "PriorityClassNotFound"
	reasonForbidden             = "Forbidden"
	reasonRefused               = "Refused"   // after the kind: PodRefused
	reasonNameTaken             = "NameTaken" // after the kind: PodNameTaken
	reasonPodChanged            = "PodChanged"
	reasonOldPodStops           = gputask.ReasonOldPodStops
)

// podObstacle explains to the task's user why the API server rejected a Pod. It returns nil for
// errors that are not about the task, such as an API server that can't be reached or is
// overloaded.
func podObstacle(err error, pod *corev1.Pod) *gputask.Obstacle {
	text := apierror.Message(err)
	switch {
	case apierror.IsTransient(err):
		return nil
	case apierrors.IsInvalid(err):
		return invalidPod(err)
	case strings.Contains(text, "no PriorityClass with name"):
		return &gputask.Obstacle{Reason: reasonPriorityClassNotFound,
			Message: missingClass(pod.Spec.PriorityClassName)}
	default:
		return refusal(err, "Pod")
	}
}

func missingClass(name string) string {
	return fmt.Sprintf("there is no PriorityClass %q: create it, or recreate the task with another spec.priority", name)
}

// refusal explains why the API server rejected an object of a kind, whatever it is; nil as
// podObstacle does.
func refusal(err error, kind string) *gputask.Obstacle {
	text := apierror.Message(err)
	switch {
	case apierror.IsTransient(err):
		return nil
	case strings.Contains(text, "exceeded quota"):
		return &gputask.Obstacle{Reason: gputask.ReasonQuotaExceeded, Message: withoutUsage(afterColon(text))}
	case apierrors.IsForbidden(err):
		return &gputask.Obstacle{Reason: reasonForbidden, Message: afterColon(text)}
	default: // an admission webhook rejects it, or can't be reached
		return &gputask.Obstacle{Reason: kind + reasonRefused, Message: fmt.Sprintf("the API server refuses the %s: %s", kind, text)}
	}
}

// invalidPod explains which fields of the Pod are invalid. That may be due to the template, or to a webhook that has changed the
// Pod: only the API server sees both. So it is tried again, as a Job does. An admission policy names no field.
func invalidPod(err error) *gputask.Obstacle {
	fields := invalidFields(err)
	if len(fields) == 0 {
		return refusal(err, "Pod")
	}
	return &gputask.Obstacle{Reason: v1.ReasonInvalidPod,
		Message: fmt.Sprintf("the API server refuses the Pod: %s; correct the template while the task is suspended, unless a webhook has changed the Pod", strings.Join(fields, "; "))}
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

// nameConflict returns what to do about an existing object of a kind that has the name of the
// task's own. It returns nil if it is the task's own.
func nameConflict(task *v1.GPUTask, kind string, object metav1.Object) *gputask.Obstacle {
	owner, name := metav1.GetControllerOf(object), object.GetName()
	var message string
	switch {
	case metav1.IsControlledBy(object, task) && object.GetLabels()[v1.LabelTask] != "":
		return nil
	case metav1.IsControlledBy(object, task):
		message = fmt.Sprintf("%s %q has lost its label %s=%s: restore the label or delete the %s", kind, name, v1.LabelTask, task.Name, kind)
	case object.GetDeletionTimestamp() != nil, gputask.ControllerOf(object) != nil && owner.Name == task.Name:
		return &gputask.Obstacle{Reason: reasonOldPodStops, Message: fmt.Sprintf("waiting for the %s %q of a previous task to be deleted", kind, name)}
	case owner != nil:
		message = fmt.Sprintf("a %s named %q exists already and belongs to %s %q: recreate this task under another name", kind, name, owner.Kind, owner.Name)
	default:
		message = fmt.Sprintf("a %s named %q exists already and does not belong to this task: delete that %s, or recreate the task under another name", kind, name, kind)
	}
	return &gputask.Obstacle{Reason: kind + reasonNameTaken, Message: message}
}

// explainNameConflict returns an error about an object that could not be created because its name
// is taken, and remembers why if it is not the task's own: somebody else's is never touched. It
// gets the existing object, or the error of getting it.
func (c *Controller) explainNameConflict(key cache.ObjectName, task *v1.GPUTask, kind string, existing metav1.Object, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("creating a %s: one of its name existed a moment ago", kind)
	}
	if err != nil {
		return fmt.Errorf("looking at the %s in the way: %w", kind, err)
	}
	obstacle := nameConflict(task, kind, existing)
	if obstacle == nil {
		return fmt.Errorf("creating %s %s: it exists, the cache does not show it yet", kind, existing.GetName())
	}
	c.refused(key, task, obstacle)
	return errors.New(obstacle.Message)
}

// refused remembers why objects of a task are refused.
func (c *Controller) refused(key cache.ObjectName, task *v1.GPUTask, obstacle *gputask.Obstacle) {
	c.obstacles.set(key, task.UID, *obstacle, causeOf(task, c.podsOf(task), obstacle))
}

// accepted forgets why objects of a task were refused, and reports whether they were: those of a
// plan now exist, or none are to be created any more.
func (c *Controller) accepted(key cache.ObjectName, plan *gputask.Plan) bool {
	if len(plan.Create) > 0 || plan.CreateService != nil {
		return c.obstacles.pass(key)
	}
	return c.obstacles.clear(key)
}

// afterColon drops the API server's preamble `pods "x" is forbidden: `.
func afterColon(text string) string {
	if _, rest, found := strings.Cut(text, ": "); found {
		return rest
	}
	return text
}

// withoutUsage drops from "exceeded quota: gpus, requested: pods=1, used: pods=8, limited: pods=8"
// how much of the quota is used: it changes all the time, and would be old.
func withoutUsage(text string) string {
	before, rest, found := strings.Cut(text, ", used: ")
	_, limits, found2 := strings.Cut(rest, ", limited: ")
	if !found || !found2 {
		return text
	}
	return before + ", limited: " + limits
}
