// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verdict is pure: the one answer to whether work runs and, if it does not, why. gpu-controller writes it into
// the status of a task, and whoever shows a task or a Pod shows the same.
package verdict

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

// Kind is what a verdict says in one word: a reason of a task, or one of those below.
type Kind = v1.TaskReason

// The kinds of verdicts on what runs, or has ended.
const (
	Runs     Kind = "Runs"
	Finished Kind = "Finished"
)

// Verdict is whether work runs and, if it does not, why.
type Verdict struct {
	Kind Kind `json:"kind"`
	// Cause is why, as a clause that begins with what blocks: `PersistentVolumeClaim "data" does not exist`. Help is
	// what would let it start, as a clause; empty if nothing is known.
	Cause string `json:"cause,omitempty"`
	Help  string `json:"help,omitempty"`
	// Commands show what blocks, or mend it.
	Commands []string `json:"commands,omitempty"`
}

// IsServed reports whether the scheduler gives places to such work as soon as there are some: it has a position in its
// queue, and may have an expected start.
func (v *Verdict) IsServed() bool { return v.Kind == v1.TaskQueued || v.Kind == v1.TaskStarting }

// OfTask returns the verdict on a task with its Pods.
func OfTask(task *v1.GPUTask, pods []*corev1.Pod) Verdict {
	status := &task.Status
	said := Verdict{Kind: reasonOf(status), Cause: status.Message}
	switch status.Phase {
	case v1.PhaseSucceeded, v1.PhaseFailed:
		return Verdict{Kind: Finished, Cause: status.Message}
	case v1.PhaseRunning:
		return Verdict{Kind: Runs, Cause: status.Message}
	case v1.PhaseWaiting, v1.PhaseSuspended:
		said.Kind = v1.TaskBlocked
	case v1.PhasePending:
		if refused := meta.FindStatusCondition(status.Conditions, v1.ConditionPodsCreated); refused != nil && refused.Status == metav1.ConditionFalse {
			return Verdict{Kind: cmp.Or(said.Kind, v1.TaskBlocked), Cause: refused.Message, Commands: commandsForRefusal(refused.Reason, task.Namespace)}
		}
		// gpu-controller may know another cause than the Pods without nodes: then that comes first.
		if explained := OfPods(pods); explained.Cause != "" && cmp.Or(said.Kind, explained.Kind) == explained.Kind {
			return explained
		}
	default:
		return Verdict{Kind: v1.TaskBlocked, Cause: "gpu-controller has not processed it yet", Commands: []string{"kubectl gputask version"}}
	}
	said.Kind, said.Commands = cmp.Or(said.Kind, v1.TaskStarting), commandsFor(task, pods)
	return said
}

// reasonOf returns why a task does not run that is Pending; empty if gpu-controller has not said it yet, or is of an
// earlier version.
func reasonOf(status *v1.GPUTaskStatus) v1.TaskReason {
	if reconciling := meta.FindStatusCondition(status.Conditions, v1.ConditionReconciling); reconciling != nil && reconciling.Reason != string(v1.PhasePending) {
		return v1.TaskReason(reconciling.Reason)
	}
	return ""
}

// OfPods returns the verdict on Pods that belong together, by those of them that have no node. It is zero if none of
// them waits for a node, or no scheduler has said anything about them.
func OfPods(pods []*corev1.Pod) Verdict {
	reason := waitingreason.Of(pods...)
	if reason == nil {
		return Verdict{}
	}
	verdict := Verdict{Kind: OfReason(reason), Cause: reason.Message, Help: waitingreason.Help(reason)}
	if waits := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" && !podfacts.Ended(pod) }); waits >= 0 {
		verdict.Commands = commandsForPod(reason, pods[waits])
	}
	return verdict
}

// OfReason returns what a scheduler's reason says in one word. Of what other schedulers say, the meaning is mostly not
// known: then they are expected to go on trying.
func OfReason(reason *v1.WaitingReason) Kind {
	switch reason.Reason {
	case v1.WaitsForever, v1.WaitsForChange:
		return v1.TaskNeverFits
	case v1.WaitsForExternal, v1.WaitsForQueueAccess, v1.WaitsForClaims, v1.WaitsForClosedNodes:
		return v1.TaskBlocked
	case v1.WaitsForMoves:
		return v1.TaskStarting
	case v1.WaitsForConstraints:
		if waitsForNobody(reason) {
			return v1.TaskBlocked
		}
	default:
	}
	if reason.Never {
		return v1.TaskNeverFits
	}
	return v1.TaskQueued
}

// waitsForNobody reports whether plugins of kube-scheduler refuse all nodes that have room, and no other node may get
// room: nobody has to leave.
func waitsForNobody(reason *v1.WaitingReason) bool {
	refused := false
	for i := range reason.Nodes {
		word, isEngines := placement.ReasonOf(reason.Nodes[i].Cause)
		switch {
		case !isEngines:
			refused = true
		case !word.Lasting():
			return false
		}
	}
	return refused
}
