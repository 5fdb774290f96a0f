// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// actionFor returns what to do about a member that has failed or was lost: what the first rule
// that matches says, else what the failure policy says about a failure. It is "" for a lost Pod
// about which no rule says anything.
func (d *decision) actionFor(m *member) v1.FailureAction {
	for i := range m.role.FailureRules {
		if rule := &m.role.FailureRules[i]; ruleMatches(rule, m.pod) {
			return rule.Action
		}
	}
	switch {
	case m.state == podLost:
		return ""
	case m.role.FailurePolicy == v1.RestartPod || IsArray(d.Task):
		return v1.ActionRestartPod
	default:
		return v1.ActionRestartTask
	}
}

func ruleMatches(rule *v1.FailureRule, pod *corev1.Pod) bool {
	switch {
	case rule.OnExitCodes != nil:
		return slices.ContainsFunc(endsOf(pod), func(e end) bool { return exitCodeMatches(rule.OnExitCodes, e) })
	case len(rule.OnPodConditions) > 0:
		return slices.ContainsFunc(rule.OnPodConditions, func(pattern v1.PodConditionPattern) bool {
			condition := podCondition(pod, corev1.PodConditionType(pattern.Type))
			return condition != nil && condition.Status == cmp.Or(pattern.Status, corev1.ConditionTrue)
		})
	default:
		return slices.Contains(rule.OnReasons, pod.Status.Reason) ||
			slices.ContainsFunc(endsOf(pod), func(e end) bool { return slices.Contains(rule.OnReasons, e.reason) })
	}
}

func exitCodeMatches(codes *v1.ExitCodes, e end) bool {
	if e.exitCode == 0 || codes.ContainerName != "" && codes.ContainerName != e.container {
		return false
	}
	return slices.Contains(codes.Values, e.exitCode) == (codes.Operator == v1.ExitCodeIn)
}

// end is how a container has ended.
type end struct {
	container, reason string
	exitCode          int32
}

// endsOf returns how the containers of a Pod have ended, those of initialization first.
func endsOf(pod *corev1.Pod) []end {
	var ends []end
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if terminated := status.State.Terminated; terminated != nil {
			ends = append(ends, end{container: status.Name, reason: terminated.Reason, exitCode: terminated.ExitCode})
		}
	}
	return ends
}
