// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// delay is why Pods of a task don't run: in one sentence, and in one word.
type delay struct {
	text   string
	reason v1.TaskReason
}

// waitingFor returns why Pods of the task don't run, for the most informative cause.
func (d *decision) waitingFor(unscheduled unscheduledPods) delay {
	if cause := d.cause(); cause.text != "" {
		d.plan.cause = shorten(cause.text)
		return cause
	}
	if unscheduled.text != "" {
		text := unscheduled.text // the cause is what a narrow column has to show
		if unscheduled.count < len(d.members) {
			text = strings.TrimSpace(podsWait(unscheduled.count, len(d.members))) + ": " + text
		}
		return delay{text, unscheduled.reason}
	}
	if text := d.containerTexts(); text != "" {
		d.plan.cause = shorten(text)
		return delay{text, v1.TaskBlocked}
	}
	return delay{cmp.Or(d.startingText(), podsWait(d.countNotRunning(), len(d.members))+noCause), v1.TaskStarting}
}

// noCause ends messages that say only that Pods have not started.
const noCause = "to start"

// SaysNoCause reports whether a message of a task says only that its Pods have not started, and not
// what they wait for.
func SaysNoCause(message string) bool { return strings.HasSuffix(message, " "+noCause) }

// cause returns what delays the task before its Pods wait for nodes.
func (d *decision) cause() delay {
	switch {
	case d.Refusal != nil && d.Refusal.Reason == ReasonOldPodStops:
		return delay{d.Refusal.Message, v1.TaskStarting}
	case d.Refusal != nil:
		return delay{d.Refusal.Message, v1.TaskBlocked}
	case d.overdue != "":
		return delay{d.overdue, v1.TaskBlocked}
	case d.isRestarting():
		return delay{strings.TrimSuffix(d.restartText()+"; "+d.keptText(), "; "), v1.TaskStarting}
	case d.restartsAfterLoss():
		return delay{meta.FindStatusCondition(d.status.Conditions, v1.ConditionRunning).Message + "; all Pods start again", v1.TaskStarting}
	}
	if kept := d.keptText(); kept != "" {
		return delay{kept, v1.TaskBlocked}
	}
	return delay{cmp.Or(d.nodeRefusalText(), d.lossText()), v1.TaskStarting}
}

// containerTexts returns what the containers of a Pod wait for: of the first Pod for which
// that is worth reporting.
func (d *decision) containerTexts() string {
	for _, m := range d.members {
		if m.pod == nil || m.state != podPending {
			continue
		}
		if text := containerText(m.pod); text != "" {
			return podOnNode(m.pod) + ": " + text
		}
	}
	return ""
}

// restartsAfterLoss reports whether Pods of a gang are left from before it lost one of them.
func (d *decision) restartsAfterLoss() bool {
	running := meta.FindStatusCondition(d.status.Conditions, v1.ConditionRunning)
	return running != nil && running.Status == metav1.ConditionFalse && running.Reason == reasonRestarting && !IsArray(d.Task) &&
		slices.ContainsFunc(d.members, func(m *member) bool { return m.pod != nil && m.stale && !m.done() })
}

// isRestarting reports whether the task waits for a restart after a failure.
func (d *decision) isRestarting() bool { return slices.ContainsFunc(d.members, d.awaitsRestart) }

// awaitsRestart reports whether a member's last attempt failed and the next one has not
// begun. A member without a Pod whose backoff is over has lost it since.
func (d *decision) awaitsRestart(m *member) bool {
	if m.lastFailure == nil || m.done() || m.queued {
		return false
	}
	if m.pod == nil {
		return d.backoffLeft(m) > 0
	}
	return m.stale
}

// restartText returns why the task restarts and, if the restart is not due yet, when.
func (d *decision) restartText() string {
	text := fmt.Sprintf("%s; restart %d of %d", d.restartCause(), d.status.Restarts, d.backoffLimit())
	if d.Task.Spec.BackoffLimitPerIndex != nil {
		text = fmt.Sprintf("%s; restart %d", d.restartCause(), d.status.Restarts)
	}
	var next time.Duration
	for _, m := range d.members {
		if d.awaitsRestart(m) {
			if wait := d.backoffLeft(m); wait > 0 && (next == 0 || wait < next) {
				next = wait
			}
		}
	}
	if next == 0 {
		return text
	}
	return text + " at " + timeText(d.Now.Add(next))
}

// restartCause returns the failure that a task restarts after: from the condition Running
// or, while enough other Pods run, from the failed Pod.
func (d *decision) restartCause() string {
	if running := meta.FindStatusCondition(d.status.Conditions, v1.ConditionRunning); running != nil && running.Reason == reasonRestarting {
		return running.Message
	}
	for _, m := range d.members {
		if m.pod != nil && m.stale && m.state == podFailed {
			return failureOf(m.pod)
		}
	}
	return "a Pod failed"
}

// podsWait begins a sentence about some of all Pods of a task: "waiting " or, in a gang, "2 of
// 3 Pods wait ".
func podsWait(some, all int) string {
	switch {
	case all == 1:
		return "waiting "
	case some == all:
		return plural.All(all, "Pod", "waits", "wait") + " "
	case some == 1:
		return fmt.Sprintf("1 of %d Pods waits ", all)
	default:
		return fmt.Sprintf("%d of %d Pods wait ", some, all)
	}
}

// containerText returns what a Pod's containers wait for, if it is worth reporting.
func containerText(pod *corev1.Pod) string {
	waits := podfacts.WaitsFor(pod)
	if waits == nil {
		return ""
	}
	return strings.TrimSuffix(waits.Reason+": "+waits.Message, ": ")
}

func nodeText(nodes []string) string {
	switch {
	case len(nodes) == 1:
		return nodes[0]
	case len(nodes) <= 3:
		return strings.Join(nodes, ", ")
	default:
		return fmt.Sprintf("%s and %d more nodes", nodes[0], len(nodes)-1)
	}
}

// keptText returns which Pod still has its name although it has stopped, and who keeps it; "" if none has. The next one
// waits for that.
func (d *decision) keptText() string {
	for _, m := range d.members {
		if m.pod != nil && !m.done() && d.isKept(m.pod) {
			return fmt.Sprintf("Pod %s has stopped and is being deleted, but is kept by the %s %s: its replacement is created when it is gone",
				m.pod.Name, plural.Verb(len(m.pod.Finalizers), "finalizer", "finalizers"), strings.Join(m.pod.Finalizers, ", "))
		}
	}
	return ""
}

// isKept reports whether nothing but finalizers keeps a Pod from being gone.
func (d *decision) isKept(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0 && !pod.DeletionTimestamp.After(d.Now) && !podfacts.HoldsNode(pod)
}
