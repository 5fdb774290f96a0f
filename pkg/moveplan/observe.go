// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// observedMove is the observed state of a move.
type observedMove struct {
	// task is nil if it is gone.
	task *clusterview.Task
	// before is the Pod to move, nil once it is gone; after is another Pod of its name.
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

// taskOf returns the referenced task, nil if it is gone. A later task of the same name does
// not count.
func taskOf(tasks map[taskKey]*clusterview.Task, ref *v1.TaskReference) *clusterview.Task {
	task := tasks[taskKey{ref.Namespace, ref.Name}]
	if task == nil || (ref.UID != "" && task.UID != ref.UID) {
		return nil
	}
	return task
}

// stopped reports whether the task should no longer run.
func stopped(task *clusterview.Task) bool {
	return task == nil || task.DeletionTimestamp != nil || gputask.IsFinished(task.GPUTask) || gputask.SuspensionRequested(task.GPUTask)
}

// hasLeft reports whether the Pod was evicted, is terminating or is gone.
func (s *step) hasLeft(seen *observedMove, move *v1.Move) bool {
	return seen.before == nil || seen.before.DeletionTimestamp != nil || s.Tries[move.PodUID].Granted
}

// runs reports whether a Pod runs and is not terminating.
func runs(pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning
}

// updateMoves updates the status of all moves to what is observed.
func (s *step) updateMoves() {
	for i := range s.status.Moves {
		switch move := &s.Plan.Spec.Moves[i]; s.status.Moves[i].State {
		case v1.MoveWaiting:
			s.updateWaiting(i, s.observe(move))
		case v1.MoveEvicted:
			s.updateEvicted(i, s.observe(move))
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

// updateWaiting skips the moves of Pods that have ended before their turn. A gang that has
// lost one of its Pods is not moved at all: it has trouble enough.
func (s *step) updateWaiting(i int, seen observedMove) {
	if !stopped(seen.task) && seen.before != nil && podfacts.Ended(seen.before) {
		s.skip(i)
		return
	}
	if !stopped(seen.task) && runs(seen.before) {
		return
	}
	for _, j := range s.movesOf(s.Plan.Spec.Moves[i].Turn) {
		if s.status.Moves[j].State == v1.MoveWaiting {
			s.skip(j)
		}
	}
}

func (s *step) skip(i int) {
	s.status.Moves[i] = v1.MoveStatus{State: v1.MoveSkipped}
}

func (s *step) updateEvicted(i int, seen observedMove) {
	move, record := &s.Plan.Spec.Moves[i], &s.status.Moves[i]
	switch {
	case stopped(seen.task) && s.hasLeft(&seen, move):
		record.State = v1.MoveSkipped // keeps what it lost
	case stopped(seen.task):
		s.skip(i)
	case seen.before != nil:
		if podfacts.Ended(seen.before) && !s.hasLeft(&seen, move) {
			s.skip(i)
		}
	case gputask.HasSucceeded(seen.task.GPUTask, move.Pod):
		record.State = v1.MoveSkipped
	case seen.after == nil || seen.after.Spec.NodeName == "":
	case move.To.Node != "" && seen.after.Spec.NodeName != move.To.Node:
		record.State, record.Node = v1.MoveElsewhere, seen.after.Spec.NodeName
	case runs(seen.after) || podfacts.Ended(seen.after):
		record.State, record.Node = v1.MoveMoved, seen.after.Spec.NodeName
	}
}

// uncounted returns the tasks whose Pods this plan has moved and whose own status does not
// count that yet.
func (s *step) uncounted() []Count {
	var counts []Count
	listed := map[taskKey]bool{}
	for i := range s.Plan.Status.Moves {
		move, record := &s.Plan.Spec.Moves[i], &s.Plan.Status.Moves[i]
		seen := s.observe(move)
		key := taskKey{move.Task.Namespace, move.Task.Name}
		if record.EvictedAt == nil || listed[key] || seen.task == nil || !s.hasLeft(&seen, move) {
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

// IsDone reports whether the task's status has counted the move already, or a later one.
// The plan's name alone is not enough: a plan written by hand may be created again.
func (c *Count) IsDone(task *v1.GPUTask) bool {
	last := task.Status.LastMove
	return last != nil && (last.Time.After(c.Move.Time.Time) || (last.Plan == c.Move.Plan && last.Time.Equal(&c.Move.Time)))
}
