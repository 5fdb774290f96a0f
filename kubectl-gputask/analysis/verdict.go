// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/verdict"
)

// verdictOn returns the verdict on a task, or on Pods of others if task is nil. Whether its Pods may use their queue is
// known before their scheduler says it.
func verdictOn(queues *Queues, task *v1.GPUTask, pods []*corev1.Pod) verdict.Verdict {
	said := verdict.OfPods(pods)
	if task != nil {
		said = verdict.OfTask(task, pods)
	}
	said.Kind = cmp.Or(said.Kind, v1.TaskQueued)
	if said.Kind == verdict.Runs || said.Kind == verdict.Finished {
		return said
	}
	for _, pod := range pods {
		if problem := queues.Assign(pod).Problem; problem != nil && pod.Spec.NodeName == "" {
			return verdict.Verdict{Kind: v1.TaskBlocked, Cause: problem.Message, Commands: []string{"kubectl get gpuqueues"}}
		}
	}
	return said
}

// verdictOnWaiting is verdictOn about the Pods without nodes alone: others of a task may run, such as of an array.
func verdictOnWaiting(queues *Queues, task *v1.GPUTask, pods []*corev1.Pod) verdict.Verdict {
	if task != nil && task.Status.Phase == v1.PhaseRunning {
		task = nil
	}
	return verdictOn(queues, task, pods)
}

// Kind returns what an outlook says in one word.
func (o *Outlook) Kind() verdict.Kind {
	switch o.Verdict {
	case Now, AfterPreemption:
		return v1.TaskStarting
	case Never, Invalid:
		return v1.TaskNeverFits
	case QueueRefuses, NodesClosed, Missing:
		return v1.TaskBlocked
	default:
		return v1.TaskQueued
	}
}

// say has an outlook on what is served say what its scheduler has found. What others than gpu-scheduler say about
// nodes is less than what is known here, and does not replace it.
func (o *Outlook) say(said *verdict.Verdict, reason *v1.WaitingReason) {
	switch {
	case reason == nil || !said.IsServed() || strings.Contains(o.Problem+"\n"+o.Nodes, reason.Message):
	case reason.Reason == "" && o.Nodes != "":
		if !strings.Contains(reason.Message, o.Nodes) { // gpu-scheduler's own words do, until it has written more
			o.Nodes = reason.Message + "; " + o.Nodes
		}
	default:
		o.Nodes = reason.Message
	}
}

// outlookFor returns what is added to a verdict: an outlook, if that says the same, with the scheduler's own words.
// Otherwise the scheduler knows more, such as which places are booked for others, and its reason is all that is added:
// but what never fits, never does, also before the task's status says so.
func outlookFor(said *verdict.Verdict, reason *v1.WaitingReason, o *Outlook) *Outlook {
	agrees := said.Kind == o.Kind() || said.Kind == v1.TaskStarting || said.Kind == v1.TaskQueued && o.Verdict == AfterPreemption
	if agrees || reason == nil || o.Verdict == Never && (reason.Never || reason.Reason == "") {
		o.say(said, reason)
		return o
	}
	published := &Outlook{Verdict: Sometime, Nodes: reason.Message, Remedies: reason.Remedies, Free: o.Free}
	if said.Kind == v1.TaskNeverFits {
		published.Verdict = Never
	}
	return published
}
