// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"fmt"
	"strconv"
	"strings"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Annotations of an example with its expected end.
const (
	// AnnotationPhase is the phase that the example ends in. Required.
	AnnotationPhase = "examples.falldio.com/expect-phase"
	// AnnotationMessage is part of the message at the end.
	AnnotationMessage = "examples.falldio.com/expect-message"
	// AnnotationAfter is the name of another example that ends no later than this one.
	AnnotationAfter = "examples.falldio.com/expect-after"
	// AnnotationRestarts is the number of restarts at the end.
	AnnotationRestarts = "examples.falldio.com/expect-restarts"
	// AnnotationInterruption is part of why the Pods were taken away last.
	AnnotationInterruption = "examples.falldio.com/expect-interruption"
	// AnnotationMoves is the number of moves to another node at the end.
	AnnotationMoves = "examples.falldio.com/expect-moves"
)

// verdict is how an example compares to its expectations.
type verdict struct {
	// reached is true if the example has ended as expected.
	reached bool
	// problem is what is wrong or still missing if reached is false.
	problem string
	// final is true if the verdict can no longer change.
	final bool
}

// judge compares an example with its expectations. all are the current examples
// by name.
func judge(task *v1.GPUTask, all map[string]*v1.GPUTask) verdict {
	phase := v1.GPUTaskPhase(task.Annotations[AnnotationPhase])
	ended := task.Status.Phase == v1.PhaseSucceeded || task.Status.Phase == v1.PhaseFailed
	if task.Status.Phase != phase {
		return verdict{final: ended, problem: fmt.Sprintf("is %s, expected %s: %s", task.Status.Phase, phase, task.Status.Message)}
	}
	if part := task.Annotations[AnnotationMessage]; !strings.Contains(task.Status.Message, part) {
		return verdict{final: ended, problem: fmt.Sprintf("says %q, expected %q in it", task.Status.Message, part)}
	}
	if restarts := task.Annotations[AnnotationRestarts]; restarts != "" && restarts != strconv.Itoa(int(task.Status.Restarts)) {
		return verdict{final: ended, problem: fmt.Sprintf("was restarted %d times, expected %s", task.Status.Restarts, restarts)}
	}
	if part := task.Annotations[AnnotationInterruption]; part != "" && (task.Status.LastInterruption == nil || !strings.Contains(task.Status.LastInterruption.Message, part)) {
		return verdict{final: ended, problem: fmt.Sprintf("does not say that it was interrupted because of %q", part)}
	}
	if moves := task.Annotations[AnnotationMoves]; moves != "" && moves != strconv.Itoa(int(task.Status.Moves)) {
		return verdict{final: ended, problem: fmt.Sprintf("was moved %d times, expected %s", task.Status.Moves, moves)}
	}
	if problem := judgeOrder(task, all); problem != "" {
		return verdict{final: ended, problem: problem}
	}
	return verdict{reached: true, final: ended}
}

func judgeOrder(task *v1.GPUTask, all map[string]*v1.GPUTask) string {
	name := task.Annotations[AnnotationAfter]
	if name == "" {
		return ""
	}
	other := all[name]
	if other == nil || other.Status.CompletionTime == nil || task.Status.CompletionTime.Before(other.Status.CompletionTime) {
		return fmt.Sprintf("ended before %q, expected after", name)
	}
	return ""
}
