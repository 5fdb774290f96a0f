// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// guardedLabel marks Pods that a PodDisruptionBudget protects from eviction.
const guardedLabel = "test.falldio.com/guarded"

// stressTask is a task of the stress test.
type stressTask struct {
	gang
	// never is true for a task whose policy forbids moves, guarded for one protected by a
	// PodDisruptionBudget.
	never, guarded bool
	// maxMoves is how often it may be moved, 0 for no limit.
	maxMoves int32
	// cancelled is true for a task that its user deletes before its end.
	cancelled bool
}

// neverMoves reports whether no plan may move a task.
func (j *stressTask) neverMoves() bool { return j.never || j.guarded }

// isBig reports whether a task needs whole nodes.
func (j *stressTask) isBig() bool { return j.gpus == stressedGPUs }

// submitBig creates a task that needs whole nodes, if none waits.
func (w *stressState) submitBig() {
	w.Helper()
	if w.big != nil && w.ledger.record(w.big.name).whole.IsZero() {
		return
	}
	w.done["big tasks"]++
	j := &stressTask{gang: gang{gpus: stressedGPUs, pods: 1 + w.random.IntN(2), priority: medium, duration: w.between(1000, 4000).String()}}
	w.submitAs("big", j)
	w.big = j
}

// isOver reports whether a task has ended or is suspended.
func isOver(task *v1.GPUTask) bool {
	phase := task.Status.Phase
	return phase == v1.PhaseSucceeded || phase == v1.PhaseFailed || phase == v1.PhaseSuspended
}

// fill creates random tasks until the unfinished ones request enough GPUs.
func (w *stressState) fill() {
	w.Helper()
	list, err := w.tasks.FalldioV1().GPUTasks(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	left := fullness * stressedGPUs * float64(len(w.present))
	ended := map[string]bool{}
	for i := range list.Items {
		ended[list.Items[i].Name] = isOver(&list.Items[i])
	}
	for _, j := range w.all {
		if done, exists := ended[j.name]; exists && !done && !j.isBig() {
			left -= j.demand()
		}
	}
	for left > 0 {
		j := w.randomStressTask()
		w.submitAs("task", j)
		left -= j.demand()
	}
}

// demand returns how many GPUs a task requests.
func (j *stressTask) demand() float64 {
	return float64(max(j.pods, 1)) * (float64(j.gpus) + float64(j.percent)/100)
}

func (w *stressState) randomStressTask() *stressTask {
	j := &stressTask{gang: gang{pods: 1, priority: medium, duration: w.between(5000, 25000).String()}}
	switch dice := w.random.IntN(20); {
	case dice < 10:
		j.gpus = 1 + w.random.IntN(4)
	case dice < 12:
		j.percent = 10 * (1 + w.random.IntN(9))
	default:
		w.makeGang(j)
	}
	switch w.random.IntN(8) {
	case 0:
		j.priority = low
	case 1:
		j.priority = high
	}
	switch w.random.IntN(10) {
	case 0:
		j.never = true
	case 1:
		j.guarded = true
	case 2:
		j.maxMoves = 1
	}
	j.cancelled = w.random.IntN(10) == 0
	return j
}

func (w *stressState) makeGang(j *stressTask) {
	j.pods, j.gpus = 2+w.random.IntN(3), 1+w.random.IntN(2)
	j.min = j.pods
	if w.random.IntN(4) == 0 {
		j.min = 1 + w.random.IntN(j.pods-1)
	}
	if w.random.IntN(3) == 0 {
		j.level, j.required = "leaf", w.random.IntN(2) == 0
	}
}

// submitAs creates a task, and schedules what its user will do with it.
func (w *stressState) submitAs(prefix string, j *stressTask) {
	w.Helper()
	j.name, j.scheduler = fmt.Sprintf("%s-%03d", prefix, len(w.all)), w.namespace
	if j.guarded {
		j.labels = map[string]string{guardedLabel: "true"}
	}
	task := w.task(j.gang)
	task.Spec.Rescheduling = &v1.Rescheduling{Policy: v1.ReschedulingAllowed}
	if j.never {
		task.Spec.Rescheduling.Policy = v1.ReschedulingNever
	}
	if j.maxMoves > 0 {
		task.Spec.Rescheduling.MaxMoves = &j.maxMoves
	}
	if _, err := w.tasks.FalldioV1().GPUTasks(w.namespace).Create(w.Context(), task, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.all = append(w.all, j)
	switch {
	case j.cancelled:
		w.later(w.between(1000, 12000), func() { w.deleteTask(j.name) })
	case w.random.IntN(10) == 0:
		w.later(w.between(1000, 8000), func() {
			w.patchTasks(`{"spec": {"suspend": true}}`, j.name)
			w.later(w.between(1000, 4000), func() { w.patchTasks(`{"spec": {"suspend": false}}`, j.name) })
		})
	}
}

func (w *stressState) deleteTask(name string) {
	w.Helper()
	if err := w.tasks.FalldioV1().GPUTasks(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}
