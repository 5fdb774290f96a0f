// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// hashed is what of a task's spec its Pods are made from and may change while it is suspended.
type hashed struct {
	Template   *corev1.PodTemplateSpec   `json:"template,omitempty"`
	Roles      []*corev1.PodTemplateSpec `json:"roles,omitempty"`
	Priority   string                    `json:"priority,omitempty"`
	Queue      string                    `json:"queue,omitempty"`
	Checkpoint *v1.Checkpoint            `json:"checkpoint,omitempty"`
}

// TemplateHash returns the hash of a task that its Pods have in the label LabelTemplateHash. It must
// be the same in all versions of gpu-controller: an update would replace all Pods otherwise. So a field of a
// template must not get a default in the CRD, which the API server would add to the tasks that are stored.
func TemplateHash(task *v1.GPUTask) string {
	spec := &task.Spec
	from := hashed{Template: spec.Template, Priority: spec.Priority, Queue: spec.Queue, Checkpoint: spec.Checkpoint}
	for i := range spec.Roles {
		from.Roles = append(from.Roles, spec.Roles[i].Template)
	}
	hash := fnv.New64a()
	if err := json.NewEncoder(hash).Encode(from); err != nil {
		return "" // can't happen: it was decoded from JSON
	}
	return fmt.Sprintf("%016x", hash.Sum64())
}

// isOutdated reports whether a Pod was made before its task was changed. Nothing is known of the Pods
// of earlier versions, which have no hash: they stay.
func (d *decision) isOutdated(pod *corev1.Pod) bool {
	hash, found := pod.Labels[v1.LabelTemplateHash]
	return found && hash != d.templateHash()
}

// hasOutdatedPods reports whether Pods that were made before the task was changed hold a node, or may
// come to hold one.
func (d *decision) hasOutdatedPods() bool {
	return slices.ContainsFunc(d.Pods, func(pod *corev1.Pod) bool { return outcomeOf(pod).isActive() && d.isOutdated(pod) })
}

// reasonChanged is the reason of the condition Suspended, and the Event, of a task whose Pods were made
// before it was changed.
const reasonChanged = "Changed"

// replaceOutdated does what the suspension during which the task was changed would have done, had it
// lasted long enough to be seen: all Pods stop before new ones are created.
func (d *decision) replaceOutdated() {
	d.pause(reasonChanged, "the task was changed while spec.suspend was true: its Pods are replaced",
		"replacing the Pods, since the task was changed while it was suspended")
}
