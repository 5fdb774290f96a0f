// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func (d *decision) setCondition(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&d.status.Conditions, metav1.Condition{
		Type:               kind,
		Status:             status,
		ObservedGeneration: d.Task.Generation,
		LastTransitionTime: *d.now(),
		Reason:             reason,
		Message:            shorten(message),
	})
}

// maxMessage is far below the API's limit of 32768 bytes and more than anybody reads. A
// template may have very many errors.
const maxMessage = 1024

func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}

// setConditionIfPresent updates a condition only if it was set before: most tasks are never
// suspended or rejected and don't need it.
func (d *decision) setConditionIfPresent(kind string, status metav1.ConditionStatus, reason string) {
	if meta.FindStatusCondition(d.status.Conditions, kind) != nil {
		d.setCondition(kind, status, reason, "")
	}
}

// setFailureTarget decides that the task fails. The first reason is kept.
func (d *decision) setFailureTarget(reason, message string) {
	if !d.isFailing() {
		d.setCondition(v1.ConditionFailureTarget, metav1.ConditionTrue, reason, message)
	}
}

func (d *decision) isFailing() bool {
	return meta.IsStatusConditionTrue(d.status.Conditions, v1.ConditionFailureTarget)
}
