// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// Whatever counts wakes all that waits: agents that write something to each node again and again must not.
func TestWhatOfANodeMayDecideWhichPodsItAdmits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"nothing":                  {func(*corev1.Node) {}, false},
		"a label":                  {func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, true},
		"a taint":                  {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }, true},
		"a cordon":                 {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"an amount of a resource":  {func(n *corev1.Node) { n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("1")} }, true},
		"a feature of the kubelet": {func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"a"} }, true},
		"its GPUs":                 {func(n *corev1.Node) { n.Annotations = map[string]string{inventory.Annotation: "a"} }, true},
		"a cordon of a GPU":        {func(n *corev1.Node) { n.Annotations = map[string]string{inventory.CordonAnnotation: "0"} }, true},
		"what is reserved there":   {func(n *corev1.Node) { n.Annotations = map[string]string{reservation.Annotation: "a"} }, true},
		"an annotation of others":  {func(n *corev1.Node) { n.Annotations = map[string]string{"example.com/seen": "12:00"} }, false},
		"a condition, of which Kubernetes makes a taint if it matters": {func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: "KernelDeadlock", Status: corev1.ConditionFalse}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &corev1.Node{}
			after := before.DeepCopy()
			tc.change(after)
			if got := AdmissionChanged(before, after); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
