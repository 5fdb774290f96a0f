// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// lostPodPause is how long gpu-controller may wait before it recreates a Pod that was lost
// soon after its creation.
const lostPodPause = 10 * time.Second

// maxPull is how much longer a turn may take whose Pods have their nodes: images of 20 GB and more
// are common, and the places are taken.
const maxPull = 30 * time.Minute

// turnLimit is how long a turn may take: until its Pods have terminated, have been
// recreated, and run. Once all of them have nodes, the pull of their images comes on top.
func turnLimit(tasks map[taskKey]*clusterview.Task, plan *v1.MovePlan, turn int32, timeout time.Duration) time.Duration {
	for i := range plan.Spec.Moves {
		move := &plan.Spec.Moves[i]
		if move.Turn == turn && !startsOrRuns(podNamed(taskOf(tasks, &move.Task), move.Pod), move.PodUID) {
			return usualTurn(tasks, plan, turn, timeout)
		}
	}
	return usualTurn(tasks, plan, turn, timeout) + maxPull
}

// usualTurn is turnLimit for Pods that need no time to pull their images.
func usualTurn(tasks map[taskKey]*clusterview.Task, plan *v1.MovePlan, turn int32, timeout time.Duration) time.Duration {
	var longest time.Duration
	for i := range plan.Spec.Moves {
		if move := &plan.Spec.Moves[i]; move.Turn == turn {
			longest = max(longest, stopTime(taskOf(tasks, &move.Task)))
		}
	}
	return timeout + longest + lostPodPause
}

// startsOrRuns reports whether the successor of a Pod has a node, and nothing suggests that its
// containers can't start there.
func startsOrRuns(pod *corev1.Pod, predecessor types.UID) bool {
	if pod == nil || pod.UID == predecessor || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
		return false
	}
	return podfacts.WaitsFor(pod) == nil && !podfacts.Ended(pod)
}

// span is how long the rest of a plan usually takes at most: reservations are renewed before it
// is over.
func span(tasks map[taskKey]*clusterview.Task, plan *v1.MovePlan, timeout time.Duration) time.Duration {
	all := timeout // for the start of the task that room is made for
	last := noTurn
	for i := range plan.Spec.Moves {
		turn := plan.Spec.Moves[i].Turn
		if turn != last && i < len(plan.Status.Moves) && isOpen(plan.Status.Moves[i].State) {
			all += usualTurn(tasks, plan, turn, timeout)
			last = turn
		}
	}
	return all
}

func turns(plan *v1.MovePlan) int32 { return plan.Spec.Moves[len(plan.Spec.Moves)-1].Turn + 1 }

// rest returns the plan without the moves that are over.
func (s *step) rest() *v1.MovePlan {
	rest := *s.Plan // shallow: it is only read
	rest.Spec.Moves, rest.Status.Moves = nil, nil
	for i := range s.Plan.Spec.Moves {
		if isOpen(s.status.Moves[i].State) {
			rest.Spec.Moves = append(rest.Spec.Moves, s.Plan.Spec.Moves[i])
			rest.Status.Moves = append(rest.Status.Moves, s.status.Moves[i])
		}
	}
	return &rest
}

// unneeded returns why the rest of a plan is no longer needed; "" if it is.
func (s *step) unneeded() (reason, message string) {
	if s.Plan.Spec.Goal != v1.GoalPendingTask {
		return "", ""
	}
	ref := s.Plan.Spec.For
	name := ref.Namespace + "/" + ref.Name
	task := taskOf(s.tasks, ref)
	switch {
	case stopped(task):
		return ReasonNotNeeded, "GPUTask " + name + " is gone, has ended or is suspended"
	case started(task):
		return ReasonStarted, "GPUTask " + name + " has its nodes"
	default:
		return "", ""
	}
}

// started reports whether enough of a task's Pods have nodes.
func started(task *clusterview.Task) bool {
	placed := 0
	for _, pod := range task.Pods {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			placed++
		}
	}
	return placed >= gputask.MinAvailable(task.GPUTask)
}

// progress describes what a plan is doing.
func (s *step) progress(turn int32) string {
	if turn == noTurn {
		if s.Plan.Spec.Goal == v1.GoalPendingTask {
			return fmt.Sprintf("%s moved; waits for GPUTask %s/%s to start", plural.Count(s.status.Moved, "Pod"), s.Plan.Spec.For.Namespace, s.Plan.Spec.For.Name)
		}
		return plural.Count(s.status.Moved, "Pod") + " moved"
	}
	text := fmt.Sprintf("turn %d of %d", turn+1, turns(s.Plan))
	if !s.hasBegun(turn) {
		return text + " is next"
	}
	indices := s.movesOf(turn)
	move := &s.Plan.Spec.Moves[indices[0]]
	if len(indices) > 1 {
		return fmt.Sprintf("%s: moving %d Pods of GPUTask %s/%s", text, len(indices), move.Task.Namespace, move.Task.Name)
	}
	return fmt.Sprintf("%s: moving Pod %s/%s from node %s%s", text, move.Task.Namespace, move.Pod, move.From.Node, toNode("to", move.To.Node))
}

func toNode(preposition, node string) string {
	if node == "" {
		return ""
	}
	return " " + preposition + " node " + node
}

const (
	// waitMark begins the part of a message that holds only while a plan waits.
	waitMark = "; waiting for "
	waitText = waitMark + "the evicted Pods to be placed"
)

// trimWait removes waitText from a message, however an earlier version worded it.
func trimWait(message string) string {
	if at := strings.LastIndex(message, waitMark); at >= 0 {
		return message[:at]
	}
	return message
}
