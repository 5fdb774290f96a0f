// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// observedMove is what the Pods show of a move.
type observedMove struct {
	// task is nil if it is gone.
	task *clusterview.Task
	// before is the Pod that leaves, nil once it is gone; after another one of its
	// name.
	before, after *corev1.Pod
}

func (s *step) observe(move *v1.Move) observedMove { return observe(s.tasks, move) }

func observe(tasks map[taskKey]*clusterview.Task, move *v1.Move) observedMove {
	var seen observedMove
	seen.task = taskOf(tasks, &move.Task)
	if seen.task == nil {
		return seen
	}
	for _, pod := range seen.task.Pods {
		switch {
		case pod.Name != move.Pod:
		case pod.UID == move.PodUID:
			seen.before = pod
		default:
			seen.after = pod
		}
	}
	return seen
}

// taskOf returns the task that is meant, nil if it is gone. Another one of the same
// name is another task.
func taskOf(tasks map[taskKey]*clusterview.Task, ref *v1.TaskReference) *clusterview.Task {
	task := tasks[taskKey{ref.Namespace, ref.Name}]
	if task == nil || (ref.UID != "" && task.UID != ref.UID) {
		return nil
	}
	return task
}

// stopped reports whether the task is not meant to run any more.
func stopped(task *clusterview.Task) bool {
	return task == nil || task.DeletionTimestamp != nil || gputask.IsFinished(task.GPUTask) || gputask.SuspensionRequested(task.GPUTask)
}

// left reports whether the Pod has been told to end or is gone.
func (s *step) left(seen *observedMove, move *v1.Move) bool {
	return seen.before == nil || seen.before.DeletionTimestamp != nil || s.Tries[move.PodUID].Granted
}

// works reports whether a Pod runs and is not about to end.
func works(pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning
}

// watch brings the record of all moves up to date with what is to be seen.
func (s *step) watch() {
	for i := range s.status.Moves {
		switch move := &s.Plan.Spec.Moves[i]; s.status.Moves[i].State {
		case v1.MoveWaiting:
			s.watchWaiting(i, s.observe(move))
		case v1.MoveEvicted:
			s.watchEvicted(i, s.observe(move))
		case v1.MoveMoved, v1.MoveElsewhere, v1.MoveSkipped:
		}
	}
	s.status.Moved = 0
	for i := range s.status.Moves {
		if s.status.Moves[i].State == v1.MoveMoved {
			s.status.Moved++
		}
	}
}

// watchWaiting notices Pods that others have ended before their turn. A gang that
// misses one of its Pods has trouble enough: it is not moved.
func (s *step) watchWaiting(i int, seen observedMove) {
	if !stopped(seen.task) && seen.before != nil && snapshot.Ended(seen.before) {
		s.skip(i)
		return
	}
	if !stopped(seen.task) && works(seen.before) {
		return
	}
	for _, j := range s.all(s.Plan.Spec.Moves[i].Turn) {
		if s.status.Moves[j].State == v1.MoveWaiting {
			s.skip(j)
		}
	}
}

func (s *step) skip(i int) {
	s.status.Moves[i] = v1.MoveStatus{State: v1.MoveSkipped}
}

func (s *step) watchEvicted(i int, seen observedMove) {
	move, record := &s.Plan.Spec.Moves[i], &s.status.Moves[i]
	switch {
	case stopped(seen.task) && s.left(&seen, move):
		record.State = v1.MoveSkipped // what it lost stays on record
	case stopped(seen.task):
		s.skip(i)
	case seen.before != nil:
		if snapshot.Ended(seen.before) && !s.left(&seen, move) {
			s.skip(i)
		}
	case gputask.HasSucceeded(seen.task.GPUTask, move.Pod):
		record.State = v1.MoveSkipped
	case seen.after == nil || seen.after.Spec.NodeName == "":
	case move.To.Node != "" && seen.after.Spec.NodeName != move.To.Node:
		record.State, record.Node = v1.MoveElsewhere, seen.after.Spec.NodeName
	case works(seen.after) || snapshot.Ended(seen.after):
		record.State, record.Node = v1.MoveMoved, seen.after.Spec.NodeName
	}
}

// uncounted returns the tasks whose Pods this plan has moved, which their own
// status does not say yet.
func (s *step) uncounted() []Count {
	var counts []Count
	listed := map[taskKey]bool{}
	for i := range s.Plan.Status.Moves {
		move, record := &s.Plan.Spec.Moves[i], &s.Plan.Status.Moves[i]
		seen := s.observe(move)
		key := taskKey{move.Task.Namespace, move.Task.Name}
		if record.EvictedAt == nil || listed[key] || seen.task == nil || !s.left(&seen, move) {
			continue
		}
		count := Count{
			Namespace: move.Task.Namespace, Name: move.Task.Name, UID: seen.task.UID,
			Move: v1.LastMove{Time: *record.EvictedAt, Plan: s.Plan.Name},
		}
		if count.IsDone(seen.task.GPUTask) {
			continue
		}
		listed[key] = true
		counts = append(counts, count)
	}
	return counts
}

// IsDone reports whether the task's status has counted the move already, or a later one. The
// plan's name alone does not tell: one that is written by hand may be written again.
func (c *Count) IsDone(task *v1.GPUTask) bool {
	last := task.Status.LastMove
	return last != nil && (last.Time.After(c.Move.Time.Time) || (last.Plan == c.Move.Plan && last.Time.Equal(&c.Move.Time)))
}

// grace is how long a task's Pods may take to end.
func grace(task *clusterview.Task) time.Duration {
	const standard = 30 * time.Second
	if task == nil || task.Spec.Template == nil || task.Spec.Template.Spec.TerminationGracePeriodSeconds == nil {
		return standard
	}
	return time.Duration(*task.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
}
