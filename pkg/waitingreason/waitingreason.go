// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package waitingreason is pure: why Pods have no nodes, as their schedulers say it. gpu-scheduler publishes it as a
// value, in an annotation, beside the sentence that kube-scheduler writes into the condition PodScheduled. Of what
// another scheduler says, or an earlier version of ours, only the sentence is known.
package waitingreason

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// maxBytes is how long the annotation may be. A longer reason is not published.
const maxBytes = 8192

// Encode returns the value of the annotation; empty if it would be too long.
func Encode(reason *v1.WaitingReason) string {
	text, err := json.Marshal(reason)
	if err != nil || len(text) > maxBytes {
		return ""
	}
	return string(text)
}

// Same reports whether two reasons differ at most in when they were found.
func Same(a, b *v1.WaitingReason) bool {
	other := *a
	other.Time = b.Time
	return reflect.DeepEqual(&other, b)
}

// Published returns what the annotation of a Pod says; nil if it says nothing that can be understood.
func Published(pod *corev1.Pod) *v1.WaitingReason {
	text := pod.Annotations[v1.AnnotationWaitingReason]
	if text == "" || len(text) > maxBytes {
		return nil
	}
	reason := &v1.WaitingReason{}
	if json.Unmarshal([]byte(text), reason) != nil || reason.Message == "" {
		return nil // written by somebody else
	}
	return reason
}

// maxCompared is of how many Pods the newest reason is found: of a gang only former leaders and the present one have
// some, but of an array each Pod.
const maxCompared = 8

// Of returns why Pods that wait have no nodes: of what gpu-scheduler has published about the first of them, the newest;
// otherwise the sentence of the first of them about which anything was said, with a Reason if its meaning is known. It
// is nil if nothing was.
func Of(pods ...*corev1.Pod) *v1.WaitingReason {
	var newest, first *v1.WaitingReason
	compared := 0
	for _, pod := range pods {
		if compared == maxCompared {
			break
		}
		if pod.Spec.NodeName != "" {
			continue
		}
		condition := podfacts.Condition(pod, corev1.PodScheduled)
		if published := confirmed(pod, condition); published != nil {
			if compared++; newest == nil || newest.Time.Before(&published.Time) {
				newest = published
			}
			continue
		}
		if first == nil {
			first = reasonOf(pod, condition)
		}
	}
	return cmp.Or(newest, first)
}

// confirmed returns what was published about a Pod if its condition says the same: otherwise that is older, by another
// scheduler or by one that was replaced by an earlier version. It is nil if nothing was.
func confirmed(pod *corev1.Pod, condition *corev1.PodCondition) *v1.WaitingReason {
	if condition == nil || condition.Status != corev1.ConditionFalse {
		return nil
	}
	if published := Published(pod); published != nil && strings.Contains(condition.Message, Sentence(published)) {
		return published
	}
	return nil
}

// Sentence returns a reason in words: the cause comes first, so that whoever sees only the beginning sees that. The
// condition PodScheduled of the Pod that it is about contains it.
func Sentence(reason *v1.WaitingReason) string {
	return strings.Join(nonEmpty(Cause(reason), Help(reason)), "; ")
}

// Cause is Sentence without what would help.
func Cause(reason *v1.WaitingReason) string {
	return strings.Join(nonEmpty(reason.Message, reason.Needs), "; ")
}

// Help returns what would let the Pods start, in words; empty if nothing is known.
func Help(reason *v1.WaitingReason) string {
	if len(reason.Remedies) == 0 {
		return ""
	}
	texts := make([]string, len(reason.Remedies))
	for i := range reason.Remedies {
		texts[i] = reason.Remedies[i].Message
	}
	return placement.WouldStart(texts)
}

func nonEmpty(texts ...string) (list []string) {
	for _, text := range texts {
		if text != "" {
			list = append(list, text)
		}
	}
	return list
}
