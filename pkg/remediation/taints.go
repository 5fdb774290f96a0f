// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// none is the strictness of no taint.
const none = 0

// strictness orders the effects of taints by what they do to Pods.
func strictness(effect corev1.TaintEffect) int {
	switch effect {
	case corev1.TaintEffectPreferNoSchedule:
		return 1
	case corev1.TaintEffectNoSchedule:
		return 2
	case corev1.TaintEffectNoExecute:
		return 3
	default:
		return none
	}
}

// isOurs reports whether gpu-controller is in charge of a taint. Its key says so, whoever has added it.
func isOurs(taint *corev1.Taint) bool { return taint.Key == v1.TaintGPUUnhealthy }

// IsTainted reports whether a Node has the taint, of whatever effect.
func IsTainted(node *corev1.Node) bool { return strictest(node.Spec.Taints) != none }

// strictest returns the strictness of our taints. There may be one of each effect.
func strictest(taints []corev1.Taint) int {
	strictest := none
	for i := range taints {
		if isOurs(&taints[i]) {
			strictest = max(strictest, strictness(taints[i].Effect))
		}
	}
	return strictest
}

func newTaint(health string, effect corev1.TaintEffect, now time.Time) *corev1.Taint {
	added := metav1.NewTime(now)
	return &corev1.Taint{Key: v1.TaintGPUUnhealthy, Value: health, Effect: effect, TimeAdded: &added}
}

// matches reports whether our only taint is the wanted one; nil for none. When it was added does
// not matter.
func matches(taints []corev1.Taint, want *corev1.Taint) bool {
	ours := 0
	for i := range taints {
		if !isOurs(&taints[i]) {
			continue
		}
		ours++
		if want == nil || taints[i].Value != want.Value || taints[i].Effect != want.Effect {
			return false
		}
	}
	return want == nil || ours == 1
}

// withTaint returns a new list with the wanted taint instead of ours, and all others in their
// order. A taint whose effect stays keeps the time at which it was added.
func withTaint(taints []corev1.Taint, want *corev1.Taint) []corev1.Taint {
	var list []corev1.Taint
	var added *metav1.Time
	for i := range taints {
		switch {
		case !isOurs(&taints[i]):
			list = append(list, taints[i])
		case want != nil && taints[i].Effect == want.Effect:
			added = taints[i].TimeAdded
		}
	}
	if want == nil {
		return list
	}
	taint := *want
	if added != nil {
		taint.TimeAdded = added
	}
	return append(list, taint)
}
