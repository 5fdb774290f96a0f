// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// Meta returns the object's metadata; nil if it has none.
func (o *Object) Meta() *metav1.ObjectMeta {
	switch {
	case o.Pod != nil:
		return &o.Pod.ObjectMeta
	case o.Task != nil:
		return &o.Task.ObjectMeta
	case o.Node != nil:
		return &o.Node.ObjectMeta
	case o.Plan != nil:
		return &o.Plan.ObjectMeta
	case o.Queue != nil:
		return &o.Queue.ObjectMeta
	case o.Namespace != nil:
		return &o.Namespace.ObjectMeta
	case o.Event != nil:
		return &o.Event.ObjectMeta
	default:
		return nil
	}
}

// String describes the object in one line: what the invariants look at.
func (o *Object) String() string {
	meta := o.Meta()
	if meta == nil {
		return string(o.Kind)
	}
	name := meta.Name
	if meta.Namespace != "" {
		name = meta.Namespace + "/" + name
	}
	text := fmt.Sprintf("%s %s", o.Kind, name)
	if len(meta.UID) > 8 {
		text += " (" + string(meta.UID[:8]) + ")"
	}
	if o.Deleted {
		return text + " is gone"
	}
	if meta.DeletionTimestamp != nil {
		text += " is being deleted"
	}
	return text + o.details()
}

func (o *Object) details() string {
	switch {
	case o.Pod != nil:
		return describePod(o.Pod)
	case o.Task != nil:
		return describeTask(o.Task)
	case o.Node != nil:
		return describeNode(o.Node)
	case o.Plan != nil:
		return fmt.Sprintf(" %s %s %s, %d moves, %d moved", o.Plan.Spec.Goal, o.Plan.Status.Phase, o.Plan.Status.Reason, len(o.Plan.Spec.Moves), o.Plan.Status.Moved)
	case o.Event != nil:
		return fmt.Sprintf(" %s of %s: %s", o.Event.Reason, o.Event.InvolvedObject.Name, o.Event.Message)
	default:
		return ""
	}
}

func describePod(pod *corev1.Pod) string {
	text := " " + string(pod.Status.Phase)
	if pod.Spec.NodeName != "" {
		text += " on " + pod.Spec.NodeName
	}
	if attempt := pod.Labels[v1.LabelAttempt]; attempt != "" {
		text += ", attempt " + attempt
	}
	if cards := pod.Annotations[inventory.AssignmentAnnotation]; cards != "" {
		text += ", cards " + cards
	}
	return text + conditions(pod)
}

// conditions describes why a Pod finds no place, or is being disrupted.
func conditions(pod *corev1.Pod) string {
	var text strings.Builder
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget || c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			fmt.Fprintf(&text, ", %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return text.String()
}

func describeTask(task *v1.GPUTask) string {
	s := &task.Status
	text := fmt.Sprintf(" %s, %d of %d run, %d succeeded, %d restarts, %d moves", s.Phase, s.Running, s.Total, s.Succeeded, s.Restarts, s.Moves)
	if task.Spec.Suspend != nil && *task.Spec.Suspend {
		text += ", suspended by its user"
	}
	return text + ": " + s.Message
}

func describeNode(node *corev1.Node) string {
	var parts []string
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			parts = append(parts, "Ready="+string(c.Status))
		}
	}
	if health := node.Labels[v1.LabelGPUHealth]; health != "" {
		parts = append(parts, health)
	}
	for _, taint := range node.Spec.Taints {
		parts = append(parts, "taint "+taint.ToString())
	}
	if text := node.Annotations[reservation.Annotation]; text != "" {
		parts = append(parts, "reservations "+text)
	}
	return " " + strings.Join(parts, ", ")
}
