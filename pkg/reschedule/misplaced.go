// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Move is a task to reschedule.
type Move struct {
	Task *v1.GPUTask
	// Pods are the task's Pods to evict.
	Pods []*corev1.Pod
	// Reason is why, for the user.
	Reason string
	// NeedsRoom is true if the Pods run, so that they must fit elsewhere before
	// they are evicted.
	NeedsRoom bool
}

// Candidates returns the tasks to reschedule: those whose Pods have been pending for longer
// than patience, then those that are misplaced, the oldest first.
func Candidates(tasks []clusterview.Task, nodes []*corev1.Node, patience time.Duration, now time.Time) []Move {
	moves := Misplaced(tasks, nodes, now)
	for _, task := range tasks {
		if move := pendingMove(task, patience, now); move != nil && movable(task.GPUTask) {
			moves = append(moves, *move)
		}
	}
	sortMoves(moves)
	return moves
}

// Misplaced returns the tasks with misplaced Pods, the oldest first. Nodes that are not ready are
// left to Kubernetes: it evicts their Pods after the time that each Pod tolerates it, slowly if
// much of a zone is concerned, and not at all if all of it is, which suggests that it is the
// network that has failed.
func Misplaced(tasks []clusterview.Task, nodes []*corev1.Node, now time.Time) []Move {
	byName := make(map[string]*corev1.Node, len(nodes))
	for _, node := range nodes {
		byName[node.Name] = node
	}
	var moves []Move
	for _, task := range tasks {
		if move := misplacedMove(task, byName, now); move != nil && movable(task.GPUTask) {
			moves = append(moves, *move)
		}
	}
	sortMoves(moves)
	return moves
}

func sortMoves(moves []Move) {
	slices.SortStableFunc(moves, func(a, b Move) int {
		return cmp.Or(
			boolOrder(a.NeedsRoom, b.NeedsRoom),
			a.Task.CreationTimestamp.Compare(b.Task.CreationTimestamp.Time),
			cmp.Compare(a.Task.Namespace, b.Task.Namespace),
			cmp.Compare(a.Task.Name, b.Task.Name),
		)
	})
}

// boolOrder sorts false before true.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// movable reports whether a task runs or should run: its Pods are not being stopped for
// another reason.
func movable(task *v1.GPUTask) bool {
	return task.DeletionTimestamp == nil &&
		(task.Status.Phase == v1.PhasePending || task.Status.Phase == v1.PhaseRunning) &&
		!gputask.SuspensionRequested(task)
}

// pendingMove returns the move of a task if none of its Pods found a node in time,
// otherwise nil.
func pendingMove(task clusterview.Task, patience time.Duration, now time.Time) *Move {
	if len(task.Pods) == 0 || gputask.IsArray(task.GPUTask) || len(task.Pods) != gputask.Replicas(task.GPUTask) {
		return nil
	}
	for _, pod := range task.Pods {
		if now.Sub(pod.CreationTimestamp.Time) <= patience || !clusterview.WaitsForScheduler(pod) {
			return nil
		}
	}
	return &Move{
		Task:   task.GPUTask,
		Pods:   task.Pods,
		Reason: fmt.Sprintf("no node for longer than %v", patience),
	}
}

// misplacedMove returns the move of those Pods of a task that are on a wrong node, nil if
// there are none.
func misplacedMove(task clusterview.Task, nodes map[string]*corev1.Node, now time.Time) *Move {
	if gputask.IsGang(task.GPUTask) && task.Status.Phase == v1.PhaseRunning {
		return nil // a running gang is not disturbed
	}
	move := &Move{Task: task.GPUTask, NeedsRoom: true}
	for _, pod := range task.Pods {
		node := nodes[pod.Spec.NodeName]
		if node == nil || pod.DeletionTimestamp != nil || podfacts.Ended(pod) || isPinned(task.GPUTask, pod, now) {
			continue
		}
		reason := misplaced(pod, node)
		if reason == "" {
			continue
		}
		move.Reason = cmp.Or(move.Reason, reason)
		move.Pods = append(move.Pods, pod)
	}
	if len(move.Pods) == 0 {
		return nil
	}
	return move
}

// isPinned reports whether the owner of a Pod does not want it to be moved.
func isPinned(task *v1.GPUTask, pod *corev1.Pod, now time.Time) bool {
	return neverMoves(task) || keptBy(pod, now) != ""
}

// misplaced returns what is wrong with a node for a Pod, nothing if it is suitable. A node
// without the model's label may be restarting its agent.
func misplaced(pod *corev1.Pod, node *corev1.Node) string {
	wanted, model := pod.Spec.NodeSelector[v1.LabelGPUModel], node.Labels[v1.LabelGPUModel]
	switch {
	case wanted != "" && model != "" && model != wanted:
		return fmt.Sprintf("node %s has the GPU model %q now, not %q", node.Name, model, wanted)
	case node.Spec.Unschedulable && !snapshot.ToleratesCordon(pod):
		return fmt.Sprintf("node %s is cordoned", node.Name)
	default:
		return ""
	}
}

// Settled reports whether a task that was moved runs again, or no longer needs to: none of
// the evicted Pods is left and as many Pods of the task run as must start together. Others
// may wait for a node forever.
func Settled(task clusterview.Task, evicted []*corev1.Pod) bool {
	if !movable(task.GPUTask) {
		return true
	}
	gone := map[types.UID]bool{}
	for _, pod := range evicted {
		gone[pod.UID] = true
	}
	running := 0
	for _, pod := range task.Pods {
		if gone[pod.UID] {
			return false
		}
		if pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	need := gputask.MinAvailable(task.GPUTask) - int(task.Status.Succeeded)
	return task.Status.Phase == v1.PhaseRunning && running >= need
}
