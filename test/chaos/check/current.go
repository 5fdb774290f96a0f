// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// InvariantCurrent says that the Pods of a task are those that its definition asks for: whatever its user has changed
// meanwhile, and however fast. A task that is suspended has none.
const InvariantCurrent = "Pods follow their task"

// current follows for how long of calm the definition of each task has been as it is.
type current struct {
	since map[types.UID]definition
	next  time.Duration
}

// definition is a generation of a task, and the calm time at which it was seen first.
type definition struct {
	generation int64
	since      time.Duration
}

func newCurrent() *current { return &current{since: map[types.UID]definition{}} }

func (c *current) take(w *world, s *step) {
	switch {
	case s.task == nil:
	case s.gone:
		delete(c.since, s.task.UID)
	case c.since[s.task.UID].generation != s.task.Generation:
		c.since[s.task.UID] = definition{s.task.Generation, w.calm}
	}
	if w.calm < c.next {
		return
	}
	c.next = w.calm + waitsPeriod
	for _, pod := range w.pods {
		c.look(w, pod)
	}
}

func (c *current) look(w *world, pod *corev1.Pod) {
	uid, owned := taskOf(pod)
	task := w.tasks[uid]
	if !owned || task == nil || task.DeletionTimestamp != nil || isFuzzed(task) || pod.DeletionTimestamp != nil || hasEnded(pod) {
		return
	}
	settled := w.calm - c.since[uid].since
	if settled <= w.config.Follow {
		return
	}
	if problem := outdated(task, pod); problem != "" {
		w.report(InvariantCurrent, nameOf(pod), "for %v: %s", settled.Round(time.Second), problem)
	}
}

// outdated returns what in a Pod is not as the definition of its task asks for; nothing if all is.
func outdated(task *v1.GPUTask, pod *corev1.Pod) string {
	differ := func(what, has, want string) string {
		if has == want {
			return ""
		}
		return fmt.Sprintf("the Pod has %s %q, and its task asks for %q", what, has, want)
	}
	if task.Spec.Suspend != nil && *task.Spec.Suspend {
		return "the task is suspended, and the Pod is there"
	}
	if text := differ("the queue", pod.Labels[v1.LabelQueue], task.Spec.Queue); text != "" {
		return text
	}
	if task.Spec.Priority != "" && pod.Spec.PriorityClassName != task.Spec.Priority {
		return differ("the class", pod.Spec.PriorityClassName, task.Spec.Priority)
	}
	template := task.Spec.Template
	if template == nil || len(task.Spec.Roles) > 0 {
		return ""
	}
	if text := differ("the revision", pod.Labels[LabelRevision], template.Labels[LabelRevision]); text != "" {
		return text
	}
	if image := imageOf(template.Spec.Containers); image != "" {
		return differ("the image", imageOf(pod.Spec.Containers), image)
	}
	return ""
}

// imageOf returns the image of the container that does a task's work; nothing if there is none.
func imageOf(containers []corev1.Container) string {
	for i := range containers {
		if containers[i].Name == v1.ContainerName {
			return containers[i].Image
		}
	}
	return ""
}
