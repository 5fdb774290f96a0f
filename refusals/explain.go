// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package refusals

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// Reasons of refusals, as in the condition PodsCreated.
const (
	reasonPriorityClassNotFound = "PriorityClassNotFound"
	reasonForbidden             = "Forbidden"
	reasonRefused               = "Refused"   // after the kind: PodRefused
	reasonNameTaken             = "NameTaken" // after the kind: PodNameTaken
	reasonPodChanged            = "PodChanged"
	reasonOldPodStops           = gputask.ReasonOldPodStops
)

// OfPod explains to the task's user why the API server refused a Pod. It returns nil for
// errors that are not about the task, such as an API server that can't be reached or is
// overloaded.
func OfPod(err error, pod *corev1.Pod) *gputask.Refusal {
	text := apierror.Message(err)
	switch {
	case apierror.IsTransient(err):
		return nil
	case apierrors.IsInvalid(err):
		return invalidPod(err)
	case strings.Contains(text, "no PriorityClass with name"):
		return &gputask.Refusal{Reason: reasonPriorityClassNotFound,
			Message: missingClass(pod.Spec.PriorityClassName)}
	default:
		return Of(err, "Pod")
	}
}

func missingClass(name string) string {
	return fmt.Sprintf("there is no PriorityClass %q: create it, or recreate the task with another spec.priority", name)
}

// Of explains why the API server refused an object of a kind, whatever it is; nil as OfPod does.
func Of(err error, kind string) *gputask.Refusal {
	text := apierror.Message(err)
	switch {
	case apierror.IsTransient(err):
		return nil
	case strings.Contains(text, "exceeded quota"):
		return &gputask.Refusal{Reason: gputask.ReasonQuotaExceeded, Message: withoutUsage(afterColon(text))}
	case apierrors.IsForbidden(err):
		return &gputask.Refusal{Reason: reasonForbidden, Message: afterColon(text)}
	default: // an admission webhook rejects it, or can't be reached
		return &gputask.Refusal{Reason: kind + reasonRefused, Message: fmt.Sprintf("the API server refuses the %s: %s", kind, text)}
	}
}

// invalidPod explains which fields of the Pod are invalid. That may be due to the template, or to a webhook that has
// changed the Pod: only the API server sees both. So it is tried again, as a Job does. An admission policy names no
// field.
func invalidPod(err error) *gputask.Refusal {
	if len(apierror.InvalidFields(err)) == 0 {
		return Of(err, "Pod")
	}
	return &gputask.Refusal{Reason: v1.ReasonInvalidPod,
		Message: fmt.Sprintf("the API server refuses the Pod: %v; correct the template while the task is suspended, unless a webhook has changed the Pod", apierror.InWords(err))}
}

// OfName explains what to do about an existing object of a kind that has the name of the task's own. It
// returns nil if it is the task's own.
func OfName(task *v1.GPUTask, kind string, object metav1.Object) *gputask.Refusal {
	owner, name := metav1.GetControllerOf(object), object.GetName()
	var message string
	switch {
	case metav1.IsControlledBy(object, task) && object.GetLabels()[v1.LabelTask] != "":
		return nil
	case metav1.IsControlledBy(object, task):
		message = fmt.Sprintf("%s %q has lost its label %s=%s: restore the label or delete the %s", kind, name, v1.LabelTask, task.Name, kind)
	case object.GetDeletionTimestamp() != nil, gputask.ControllerOf(object) != nil && owner.Name == task.Name:
		return &gputask.Refusal{Reason: reasonOldPodStops, Message: fmt.Sprintf("waiting for the %s %q of a previous task to be deleted", kind, name)}
	case owner != nil:
		message = fmt.Sprintf("a %s named %q exists already and belongs to %s %q: recreate this task under another name", kind, name, owner.Kind, owner.Name)
	default:
		message = fmt.Sprintf("a %s named %q exists already and does not belong to this task: delete that %s, or recreate the task under another name", kind, name, kind)
	}
	return &gputask.Refusal{Reason: kind + reasonNameTaken, Message: message}
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

// OfChange explains which of what the controller relies on was changed in a Pod when it was created, by an
// admission policy or a webhook; nil if nothing was. The controller would not find such a Pod again, or
// take it for another one.
func OfChange(sent, created *corev1.Pod) *gputask.Refusal {
	change := changeOnCreation(sent, created)
	if change == "" {
		return nil
	}
	return &gputask.Refusal{Reason: reasonPodChanged,
		Message: fmt.Sprintf("an admission policy or a webhook changes %s of the Pod: exempt the Pods of GPUTasks from it", change)}
}

// changeOnCreation returns what was changed in a Pod when it was created, of what the controller relies on; empty if
// nothing was.
func changeOnCreation(sent, created *corev1.Pod) string {
	for _, label := range slices.Sorted(maps.Keys(sent.Labels)) {
		if strings.HasPrefix(label, v1.GroupName+"/") && created.Labels[label] != sent.Labels[label] {
			return fmt.Sprintf("the label %s (%q, now %q)", label, sent.Labels[label], created.Labels[label])
		}
	}
	switch before, after := metav1.GetControllerOfNoCopy(sent), metav1.GetControllerOfNoCopy(created); {
	case after == nil || after.UID != before.UID:
		return "the owner reference"
	case created.Spec.RestartPolicy != sent.Spec.RestartPolicy:
		return fmt.Sprintf("restartPolicy (%s, now %s)", sent.Spec.RestartPolicy, created.Spec.RestartPolicy)
	default:
		return ""
	}
}
