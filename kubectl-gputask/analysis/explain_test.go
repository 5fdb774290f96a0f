// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Users who see nothing but their own tasks learn it from the task, whose Pod is still there.
func TestATaskAloneSaysWhichNodeDoesNotAnswer(t *testing.T) {
	t.Parallel()
	task := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: "train"}}
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "train"}, Spec: corev1.PodSpec{NodeName: "a"}}}
	for status, want := range map[metav1.ConditionStatus][]string{
		metav1.ConditionFalse: {"node a has not answered"},
		metav1.ConditionTrue:  nil,
	} {
		task.Status.Conditions = []metav1.Condition{{Type: v1.ConditionNodesReachable, Status: status, Message: "node a has not answered"}}
		if got := Alone(task, pods).WaitsFor; !slices.Equal(got, want) {
			t.Errorf("%s: it waits for %q, want %q", status, got, want)
		}
	}
}
