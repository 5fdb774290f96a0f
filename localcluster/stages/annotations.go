// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stages configures how KWOK simulates nodes and Pods.
package stages

// Annotations of Pods.
const (
	// AnnotationDuration says how long a Pod runs before it ends by itself, as
	// a Go duration such as "1m30s", or DurationForever. Without it, the Pods of
	// GPUTasks run for Config.PodDuration and all others forever. A Pod whose
	// restartPolicy is Always never ends by itself, and one whose restartPolicy
	// is OnFailure ends as if it were Never.
	AnnotationDuration = "simulation.falldio.com/duration"
	// DurationForever is the duration of a Pod that never ends by itself.
	DurationForever = "forever"
	// AnnotationExitCode is the exit code of the Pod's containers, from 0 to
	// 255. The default is 0, or 1 for an attempt that AnnotationFailAttempts
	// lets fail. Anything but 0 makes the Pod fail.
	AnnotationExitCode = "simulation.falldio.com/exit-code"
	// AnnotationFailAttempts is how many attempts fail, counted by the Pod's
	// label falldio.com/attempt (0 without it): with "2" the attempts 0 and 1
	// fail, and attempt 2 succeeds. Without it the exit code applies to every attempt.
	AnnotationFailAttempts = "simulation.falldio.com/fail-attempts"
	// AnnotationFinishAt is written by the simulation when a Pod starts: the
	// moment at which the Pod will end. It outlives a restart of KWOK. Changing
	// it changes the end.
	AnnotationFinishAt = "simulation.falldio.com/finish-at"
	// AnnotationRefusedBy lists the nodes, separated by commas, whose kubelets refuse the Pod, or is EveryNode: the Pod
	// has failed before any container has started.
	AnnotationRefusedBy = "simulation.falldio.com/refused-by"
	// AnnotationRefusal is the reason of these refusals, one of Refusals. The default is DefaultRefusal.
	AnnotationRefusal = "simulation.falldio.com/refusal"
	// AnnotationStuckOn lists the nodes, separated by commas, on which the Pod does not start, or is EveryNode. It
	// stays there until it is deleted, unless AnnotationStuckFor says for how long.
	AnnotationStuckOn = "simulation.falldio.com/stuck-on"
	// AnnotationStuckIn is what the Pod waits for there: StuckInMount, the default, or StuckInImage.
	AnnotationStuckIn = "simulation.falldio.com/stuck-in"
	// AnnotationStuckFor says after what time what the Pod waits for there has come, as a Go duration: then it starts.
	AnnotationStuckFor = "simulation.falldio.com/stuck-for"
	// AnnotationStuckUntil is written by the simulation when a Pod with AnnotationStuckFor is stuck: the moment at
	// which it will start. It outlives a restart of KWOK. Changing it changes the start.
	AnnotationStuckUntil = "simulation.falldio.com/stuck-until"
	// AnnotationCheckpointTime is how long the program of a Pod takes to save its work when it is asked to (see
	// v1.CheckpointSignal), as a Go duration, or DurationForever: it does not answer. The default is 1 s.
	AnnotationCheckpointTime = "simulation.falldio.com/checkpoint-time"
	// AnnotationCheckpoints is written by the simulation: when the program has saved its work, as times separated by
	// commas.
	AnnotationCheckpoints = "simulation.falldio.com/checkpoints"
	// AnnotationFirstStep is written by the simulation on a Pod whose predecessor has saved its work: the step from
	// which it goes on.
	AnnotationFirstStep = "simulation.falldio.com/first-step"
	// AnnotationProddedAt is set on Pods that KWOK has missed after a restart: any
	// change makes it process them.
	AnnotationProddedAt = "simulation.falldio.com/prodded-at"
)

// EveryNode stands for all nodes in AnnotationRefusedBy and AnnotationStuckOn.
const EveryNode = "*"

// The values of AnnotationStuckIn: a volume that can't be mounted, an image that can't be pulled.
const (
	StuckInMount = "mount"
	StuckInImage = "image"
)

// AnnotationNotReady with the value "true" makes a Node's kubelet report that the
// node is not ready; anything else makes it ready again. To simulate a kubelet
// that stops reporting, remove the Node's label type=kwok.
const AnnotationNotReady = "simulation.falldio.com/not-ready"
