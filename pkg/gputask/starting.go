// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// slowStart is after what time on a node a Pod that has not started is worth a sentence that says since when.
const slowStart = time.Minute

// isStarting reports whether the member's Pod has a node and has not started there.
func (m *member) isStarting() bool {
	return m.pod != nil && m.state == podPending && m.pod.Spec.NodeName != ""
}

// boundAt returns since when a Pod has had its node, the zero time if that is not known.
func boundAt(pod *corev1.Pod) time.Time {
	at, _ := podfacts.BoundAt(pod) // else the zero time
	return at
}

// firstStarting returns the member whose Pod has been on its node for the longest time without starting, nil if there
// is none.
func (d *decision) firstStarting() *member {
	var first *member
	for _, m := range d.members {
		if m.isStarting() && (first == nil || boundAt(m.pod).Before(boundAt(first.pod))) {
			first = m
		}
	}
	return first
}

// startingText returns which Pod is on its node without having started, and what it does there; "" if none is.
func (d *decision) startingText() string {
	m := d.firstStarting()
	if m == nil {
		return ""
	}
	state, missing := startState(m.pod)
	if !d.startsSlowly(m) {
		return fmt.Sprintf("%s: %s (%s)", podsWait(d.countNotRunning(), len(d.members))+noCause, podOnNode(m.pod), state)
	}
	return fmt.Sprintf("%s: %s has not started since %s (%s): %s", podsWait(d.countNotRunning(), len(d.members))+noCause,
		podOnNode(m.pod), timeText(boundAt(m.pod)), state, cmp.Or(d.notReadyText(m.pod.Spec.NodeName), missing))
}

// startsSlowly reports whether a starting member has had its node for a while.
func (d *decision) startsSlowly(m *member) bool {
	return d.isPast(boundAt(m.pod), slowStart)
}

// isPast reports whether so much time has passed since another time, if that is known. If not, the decision is due
// again when it has.
func (d *decision) isPast(since time.Time, limit time.Duration) bool {
	left := since.Add(limit).Sub(d.Now)
	if left > 0 {
		d.requeueAfter(left)
	}
	return left <= 0 && !since.IsZero()
}

// slowText is startingText if the Pod has been on its node for a while, else "".
func (d *decision) slowText() string {
	if m := d.firstStarting(); m == nil || !d.startsSlowly(m) {
		return ""
	}
	return d.startingText()
}

// hasNotBegun reports whether the node of a Pod has not begun with it.
func hasNotBegun(pod *corev1.Pod) bool {
	return pod.Status.StartTime == nil && len(pod.Status.ContainerStatuses) == 0
}

// startState returns what a Pod that has a node does there, in Kubernetes' word, and what is missing.
func startState(pod *corev1.Pod) (state, missing string) {
	if hasNotBegun(pod) {
		return "Scheduled", "the node has not started it yet"
	}
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if running := status.State.Running; running != nil && podfacts.RoleOf(pod, status.Name) == podfacts.Init {
			return "PodInitializing", "its init container " + status.Name + " is running"
		}
	}
	state = "ContainerCreating"
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "" {
			state = waiting.Reason
			break
		}
	}
	switch ready := podfacts.Condition(pod, corev1.PodReadyToStartContainers); {
	case ready == nil:
		return state, "its volumes, network, devices or images are not ready; its Events say why"
	case ready.Status == corev1.ConditionTrue:
		return state, "its images or containers are not ready; its Events say why"
	default:
		return state, "its volumes, network or devices are not ready; its Events say why"
	}
}

// podOnNode names a Pod and its node.
func podOnNode(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "Pod " + pod.Name
	}
	return "Pod " + pod.Name + " on node " + pod.Spec.NodeName
}

// startTimeout returns how long a Pod may take to start once it has a node; 0 for any time.
func (d *decision) startTimeout() time.Duration {
	seconds := cmp.Or(d.Task.Spec.StartTimeoutSeconds, d.Config.StartTimeoutSeconds)
	if seconds == nil {
		return 0
	}
	return time.Duration(*seconds) * time.Second
}

// isLate reports whether a member's Pod has not started in the time that it has for that.
func (d *decision) isLate(m *member) bool {
	timeout := d.startTimeout()
	if timeout == 0 || m.stale || m.done() || !m.isStarting() {
		return false
	}
	return d.isPast(boundAt(m.pod), timeout)
}

// lateText says which Pod has not started in time, and what it was waiting for.
func (d *decision) lateText(m *member) string {
	state, missing := startState(m.pod)
	why := cmp.Or(containerText(m.pod), state+": "+cmp.Or(d.notReadyText(m.pod.Spec.NodeName), missing))
	return fmt.Sprintf("%s did not start within %d s (startTimeoutSeconds): %s", podOnNode(m.pod), int64(d.startTimeout().Seconds()), why)
}

// giveUpLate has a gang give back all its GPUs if one of its Pods has not started in time: the others would only wait
// for it. If they ran before there was that Pod, which replaces another, they may get on without it.
func (d *decision) giveUpLate(lost []loss) {
	if d.isFailing() || !IsGang(d.Task) || d.areEnough(d.running()) {
		return
	}
	for _, l := range lost {
		if l.reason == v1.LossStartTimeout && !d.isReplacement(l.pod) {
			d.restartTask(nil)
			d.setCondition(v1.ConditionRunning, metav1.ConditionFalse, reasonRestarting, l.text)
			return
		}
	}
}

// isReplacement reports whether others of its gang had nodes already when a Pod was created, and run.
func (d *decision) isReplacement(pod *corev1.Pod) bool {
	return d.countMembers(func(m *member) bool { return m.runs() && boundAt(m.pod).Before(pod.CreationTimestamp.Time) }) > 0
}
