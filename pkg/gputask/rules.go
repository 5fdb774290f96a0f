// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
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
		return slices.ContainsFunc(podfacts.Ends(pod), func(end podfacts.End) bool { return exitCodeMatches(rule.OnExitCodes, end) })
	case len(rule.OnPodConditions) > 0:
		return slices.ContainsFunc(rule.OnPodConditions, func(pattern v1.PodConditionPattern) bool {
			condition := podfacts.Condition(pod, corev1.PodConditionType(pattern.Type))
			return condition != nil && condition.Status == cmp.Or(pattern.Status, corev1.ConditionTrue)
		})
	default:
		return slices.Contains(rule.OnReasons, pod.Status.Reason) ||
			slices.ContainsFunc(podfacts.Ends(pod), func(end podfacts.End) bool { return slices.Contains(rule.OnReasons, end.Reason) })
	}
}

// exitCodeMatches reports whether a container ended with one of the exit codes. What stands for that of a container
// which was lost is none: it would be taken for that of a program that was killed.
func exitCodeMatches(codes *v1.ExitCodes, end podfacts.End) bool {
	if end.ExitCode == 0 || !end.Known() || codes.ContainerName != "" && codes.ContainerName != end.Container {
		return false
	}
	return slices.Contains(codes.Values, end.ExitCode) == (codes.Operator == v1.ExitCodeIn)
}
