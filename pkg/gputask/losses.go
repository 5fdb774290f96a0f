// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// maxLosses is how often in a row a task may lose Pods, none of which has run for long, before it fails. With the
// default backoff, that takes more than two hours.
const maxLosses = 20

// loss is a Pod that a task has lost without a failure.
type loss struct {
	index  int
	pod    *corev1.Pod
	reason v1.LossReason
	// text says which Pod it was, and what happened.
	text string
}

// WasTakenAway reports whether a Pod that is gone had not ended by itself.
func WasTakenAway(pod *corev1.Pod) bool {
	state := outcomeOf(pod)
	return state.isActive() || state == podStopped || podfacts.OutcomeOf(pod) == podfacts.Lost
}

// countLosses counts the losses of Pods that had not run for long: whatever takes them away may do so again and again,
// and nobody else brakes that. Of Pods that are lost at about the same time, one counts: a Pod counts if it is younger
// than the last one that did.
func (d *decision) countLosses() {
	if d.hasSucceeded() || d.isFailing() || SuspensionRequested(d.Task) || d.isHeld() {
		return
	}
	lost := d.losses()
	if len(lost) == 0 {
		return
	}
	last := lost[0]
	for _, other := range lost[1:] {
		if other.pod.CreationTimestamp.After(last.pod.CreationTimestamp.Time) {
			last = other
		}
	}
	d.rememberLosses(lost)
	if before := d.status.Losses; before == nil || last.pod.CreationTimestamp.After(before.LastPodTime.Time) {
		d.countLoss(last, lost)
	}
	d.giveUpLate(lost)
}

// losses returns the Pods that the task has lost, but for those that had run for long. It records why they were taken
// away.
func (d *decision) losses() []loss {
	var lost []loss
	for _, m := range d.members {
		if m.pod == nil || m.stale || m.done() {
			continue
		}
		interrupt(d, m.pod)
		switch {
		case m.ignored:
			lost = append(lost, loss{index: m.index, pod: m.pod, reason: v1.LossIgnored, text: failureOf(m.pod) + ", ignored by a rule in spec.failureRules"})
		case m.state == podLost && !podfacts.WasRefused(m.pod):
			lost = append(lost, lossOf(m.index, m.pod, "ended through no fault of its own"))
		case d.isLate(m):
			lost = append(lost, loss{index: m.index, pod: m.pod, reason: v1.LossStartTimeout, text: d.lateText(m)})
		}
	}
	for _, pod := range d.Gone {
		if index, found := memberIndex(d.Task, d.roles, pod.Name); found && !d.members[index].done() {
			interrupt(d, pod)
			lost = append(lost, lossOf(index, pod, "was deleted"))
		}
	}
	return d.withoutLongRuns(lost)
}

// withoutLongRuns drops the Pods that had run for long. If there are any, the losses before them do not matter any
// more.
func (d *decision) withoutLongRuns(lost []loss) []loss {
	ranForLong := func(l loss) bool { return d.ranFor(l.pod) >= d.Config.Backoff.Max }
	if len(lost) > 0 && !slices.ContainsFunc(lost, func(l loss) bool { return !ranForLong(l) }) {
		d.status.Losses = nil
	}
	return slices.DeleteFunc(lost, ranForLong)
}

// ranFor returns for how long a Pod that is lost has run at most.
func (d *decision) ranFor(pod *corev1.Pod) time.Duration {
	bound, known := podfacts.BoundAt(pod)
	if !known || !podfacts.EverStarted(pod) {
		return 0
	}
	end := d.Now
	if ended, known := podfacts.EndedAt(pod); known {
		end = ended
	} else if pod.DeletionTimestamp != nil {
		end = pod.DeletionTimestamp.Time
	}
	return end.Sub(bound)
}

// lossOf describes a Pod that was taken away; otherwise is what is said if nothing says by whom.
func lossOf(index int, pod *corev1.Pod, otherwise string) loss {
	reason, text := v1.LossPodLost, podOnNode(pod)+" "
	if by := podfacts.StoppedBy(pod); by != "" {
		otherwise = "was " + by
	}
	text += otherwise
	why := pod.Status.Message
	if condition := podfacts.Condition(pod, corev1.DisruptionTarget); condition != nil {
		why = cmp.Or(why, condition.Message) // of a Pod whose containers end in time, the kubelet gives no other
		if condition.Reason == corev1.PodReasonPreemptionByScheduler {
			reason = v1.LossPreempted
		}
	}
	if why = cmp.Or(why, pod.Status.Reason); why != "" {
		text += ": " + why
	}
	return loss{index: index, pod: pod, reason: reason, text: text}
}

// countLoss counts a loss, and records when the Pods that were lost with it may be created again. The first time that
// is at once if a Pod was taken away: its place may well be free elsewhere. One that did not start gives others the
// time to use its GPUs.
func (d *decision) countLoss(last loss, lost []loss) {
	count, indexes := int32(1), indexSet{}
	if before := d.status.Losses; before != nil {
		count += before.Count
		if d.Now.Before(before.NextTime.Time) { // they still wait
			known, err := parseIndexes(before.Indexes)
			if err == nil {
				indexes = known
			}
		}
	}
	for _, l := range lost {
		indexes.add(l.index)
	}
	pause := d.Config.Backoff.After(count - 1)
	if last.reason == v1.LossStartTimeout {
		pause = d.Config.Backoff.After(count)
	}
	next := metav1.NewTime(d.Now.Add(pause)).Rfc3339Copy()
	d.status.Losses = &v1.Losses{
		Count: count, LastPodTime: last.pod.CreationTimestamp, NextTime: next, Indexes: indexes.String(), Reason: last.reason, Message: shorten(last.text),
	}
	if count <= maxLosses || d.areEnough(d.running()) {
		return
	}
	switch last.reason {
	case v1.LossStartTimeout:
		d.setFailureTarget(v1.ReasonStartTimeout, fmt.Sprintf("%s; that was the %dth time in a row", last.text, count))
	case v1.LossPodLost:
		d.setFailureTarget(v1.ReasonPodsLost, fmt.Sprintf("Pods were lost %d times in a row before they had run for long; the last time %s", count, last.text))
	case v1.LossPreempted, v1.LossIgnored: // whoever preempts or ignores wants it to be tried again
	}
}

// rememberLosses records on which nodes Pods did not start, and which nodes have stopped some: the next ones prefer
// others.
func (d *decision) rememberLosses(lost []loss) {
	for _, l := range lost {
		node, created := l.pod.Spec.NodeName, l.pod.CreationTimestamp
		if node == "" || l.reason != v1.LossStartTimeout && !stoppedByNode(l.pod) {
			continue
		}
		if known := d.failedNode(node); known == nil || known.LastTime.Before(&created) {
			d.rememberNode(node, *d.now())
		}
	}
	d.forgetNodes()
}

// stoppedByNode reports whether a Pod was stopped by its node, not by somebody who needed its place or wanted it away.
func stoppedByNode(pod *corev1.Pod) bool {
	condition := podfacts.Condition(pod, corev1.DisruptionTarget)
	return podfacts.OutcomeOf(pod) == podfacts.Lost && (condition == nil || condition.Reason == corev1.PodReasonTerminationByKubelet)
}

// lossPauseLeft returns how long a member must still wait that was lost, or whose gang has lost another.
func (d *decision) lossPauseLeft(m *member) time.Duration {
	losses := d.status.Losses
	if losses == nil || !losses.NextTime.After(d.Now) || IsArray(d.Task) && !containsIndex(losses.Indexes, m.index) {
		return 0
	}
	return losses.NextTime.Sub(d.Now)
}

// lossText returns which Pod the task has lost, and when the next attempt follows; "" while nobody waits for it.
func (d *decision) lossText() string {
	losses := d.status.Losses
	if losses == nil || d.countMembers(d.awaitsLoss) == 0 {
		return ""
	}
	return fmt.Sprintf("%s; attempt %d at %s", losses.Message, losses.Count+1, timeText(losses.NextTime.Time))
}

// awaitsLoss reports whether a member waits because Pods were lost.
func (d *decision) awaitsLoss(m *member) bool {
	return !m.done() && !m.queued && d.lossPauseLeft(m) > 0 && (m.pod == nil || !m.runs())
}

// restartIfLost restarts a gang that was running and has lost a Pod, if the task says so. That is
// no failure: it does not count, and there is no backoff.
func (d *decision) restartIfLost() {
	if d.Task.Spec.OnLostPod != v1.LostPodRestartTask || !IsGang(d.Task) || d.isFailing() || d.hasSucceeded() || SuspensionRequested(d.Task) || d.isHeld() ||
		!meta.IsStatusConditionTrue(d.Task.Status.Conditions, v1.ConditionRunning) {
		return
	}
	lost := d.lostMember()
	if lost == nil {
		return
	}
	d.restartTask(nil)
	d.setCondition(v1.ConditionRunning, metav1.ConditionFalse, reasonRestarting,
		fmt.Sprintf("Pod %s was lost or deleted, and spec.onLostPod is RestartTask", PodName(d.Task, lost.index)))
}

// lostMember returns a member of a running gang that has lost its Pod, nil if there is none.
func (d *decision) lostMember() *member {
	for _, m := range d.members {
		if m.done() || m.stale || m.ignored || d.isJoining(m) {
			continue
		}
		if m.pod == nil && d.hasLostPod(m) || m.pod != nil && (m.state == podLost || m.state.isLeaving()) {
			return m
		}
	}
	return nil
}

// isJoining reports whether a member of an elastic gang may be one that is to join it: those that
// the status does not count yet, and, until all have run, any.
func (d *decision) isJoining(m *member) bool {
	if d.Task.Spec.MaxReplicas == nil {
		return false
	}
	running := meta.FindStatusCondition(d.Task.Status.Conditions, v1.ConditionRunning)
	return m.index >= int(d.Task.Status.Total) || running.Reason != reasonAllRunning
}

// hasLostPod reports whether a member of a running gang that has no Pod has lost it. Otherwise, a
// refusal keeps it from being created, or the member restarts by itself after a failure.
func (d *decision) hasLostPod(m *member) bool {
	_, restarts := findRestarts(d.status, m.index)
	return d.Refusal == nil && !restarts
}
