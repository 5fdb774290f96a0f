// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestNodeNotReady(t *testing.T) {
	t.Parallel()
	ready := func(status corev1.ConditionStatus, message string) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure}, {Type: corev1.NodeReady, Status: status, Message: message, LastTransitionTime: ago(time.Hour)}}
	}
	const stopped, down = "Kubelet stopped posting node status.", "container runtime is down"
	for name, tc := range map[string]struct {
		conditions []corev1.NodeCondition
		want       *NotReady
	}{
		"a node that is ready":          {ready(corev1.ConditionTrue, "kubelet is posting ready status"), nil},
		"a node without conditions yet": {nil, nil},
		"a node that does not answer":   {ready(corev1.ConditionUnknown, stopped), &NotReady{Since: ago(time.Hour).Time, Silent: true, Message: stopped}},
		"a node without a runtime":      {ready(corev1.ConditionFalse, down), &NotReady{Since: ago(time.Hour).Time, Message: down}},
	} {
		got := NodeNotReady(&corev1.Node{Status: corev1.NodeStatus{Conditions: tc.conditions}})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
