// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/inventory"
)

// onNode returns a Pod on a node that asks for some cores and has others, with an
// assignment of cards.
func onNode(asks, has int64, assignment string) *corev1.Pod {
	cores := func(count int64) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(count, resource.DecimalSI)}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{inventory.AssignmentAnnotation: assignment}}}
	pod.Spec.NodeName = "n"
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: cores(asks)}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", AllocatedResources: cores(has), Resources: &corev1.ResourceRequirements{Requests: cores(has)},
	}}
	return pod
}

// Gangs that wait are woken by it.
func TestWhenAPodHoldsOtherResources(t *testing.T) {
	t.Parallel()
	unbound := onNode(4, 4, "")
	unbound.Spec.NodeName = ""
	tests := map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"nothing has changed":          {onNode(4, 4, "x"), onNode(4, 4, "x"), false},
		"it is to shrink":              {onNode(4, 4, "x"), onNode(1, 4, "x"), false},
		"it has shrunk":                {onNode(1, 4, "x"), onNode(1, 1, "x"), true},
		"its cards were corrected":     {onNode(4, 4, "x"), onNode(4, 4, "y"), true},
		"it has got its node and card": {unbound, onNode(4, 4, "x"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ResourcesChanged(test.before, test.after); got != test.want {
				t.Errorf("ResourcesChanged is %t, want %t", got, test.want)
			}
		})
	}
}
