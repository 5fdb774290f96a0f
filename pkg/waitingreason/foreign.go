// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package waitingreason

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// What follows is about kube-scheduler's words, which frame those of each plugin.

// reasonOf returns what the condition PodScheduled of a Pod says, of which the meaning is mostly not known; nil if it
// says nothing.
func reasonOf(pod *corev1.Pod, condition *corev1.PodCondition) *v1.WaitingReason {
	if condition == nil {
		if text := claimsText(pod); text != "" {
			return &v1.WaitingReason{Reason: v1.WaitsForClaims, Message: text}
		}
		return nil
	}
	if condition.Status != corev1.ConditionFalse {
		return nil
	}
	reason := &v1.WaitingReason{Message: sentenceOf(pod, condition), Time: condition.LastTransitionTime}
	if reason.Message == "" {
		return nil
	}
	if text, plugin := RefusedEverywhere(reason.Message); plugin != "" {
		reason.Reason, reason.Nodes = v1.WaitsForExternal, []v1.WaitingNodes{{Cause: plugin, Message: reason.Message}}
		reason.Message = text
	}
	if condition.Reason == corev1.PodReasonSchedulingGated {
		reason.Reason = v1.WaitsForExternal
	}
	return reason
}

// sentenceOf returns what the condition PodScheduled of a Pod says: its first sentence. The rest is about preemption
// and resource claims.
func sentenceOf(pod *corev1.Pod, condition *corev1.PodCondition) string {
	if condition.Reason == corev1.PodReasonSchedulingGated && len(pod.Spec.SchedulingGates) > 0 {
		return gatesText(pod)
	}
	message := condition.Message
	for _, rest := range []string{" preemption: ", " no new claims to deallocate"} {
		message, _, _ = strings.Cut(message, rest)
	}
	return strings.TrimSuffix(strings.TrimSpace(withoutNodeCount(message)), ".")
}

// gatesText returns which gates have to be removed from a Pod before a scheduler looks for a node. Kubernetes' own
// message does not name them.
func gatesText(pod *corev1.Pod) string {
	names := make([]string, len(pod.Spec.SchedulingGates))
	for i := range pod.Spec.SchedulingGates {
		names[i] = pod.Spec.SchedulingGates[i].Name
	}
	return "scheduling gates have to be removed first: " + strings.Join(names, ", ")
}

// claimsText returns which resource claims a Pod needs about which no scheduler has said anything; empty if it needs
// none. As long as a claim does not exist, kube-scheduler does not try the Pod, and so it says nothing.
func claimsText(pod *corev1.Pod) string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		switch claim := &pod.Spec.ResourceClaims[i]; {
		case claim.ResourceClaimName != nil:
			names = append(names, fmt.Sprintf("ResourceClaim %q", *claim.ResourceClaimName))
		case claim.ResourceClaimTemplateName != nil && !hasClaim(pod, claim.Name):
			names = append(names, fmt.Sprintf("a ResourceClaim of template %q", *claim.ResourceClaimTemplateName))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "no scheduler has tried it yet: " + plural.List(names) + " " + plural.Verb(len(names), "has", "have") + " to exist first"
}

// hasClaim reports whether a ResourceClaim was created for a Pod from a template.
func hasClaim(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Status.ResourceClaimStatuses, func(status corev1.PodResourceClaimStatus) bool { return status.Name == name })
}

// withoutNodeCount removes the prefix "0/7 nodes are available: " from a message that is a
// sentence: kube-scheduler adds it because numbers of nodes with their reasons normally follow.
func withoutNodeCount(message string) string {
	_, sentence, found := strings.Cut(message, " nodes are available: ")
	if !found || !strings.HasPrefix(message, "0/") || sentence == "" {
		return message
	}
	if afterNumber := strings.TrimLeft(sentence, "0123456789"); afterNumber != sentence && !strings.HasPrefix(afterNumber, " node ") && !strings.HasPrefix(afterNumber, " nodes ") {
		return message
	}
	return sentence
}
