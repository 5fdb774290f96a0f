// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestWhatNodesSayAboutPodsIsShown(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	task := newTask("stuck", "h100", "1", replicas(2), func(task *v1.GPUTask) {
		task.Status.Message = "all 2 Pods wait to start: Pod stuck-0 on node h100-0 has not started since 2026-11-21 11:50:00 UTC (ContainerCreating)"
	})
	f.add(task)
	for index := range 2 {
		pod := podOf(task, index, 0)
		pod.Spec.NodeName = "h100-0"
		f.add(pod, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("mount-%d", index), Namespace: "default"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: pod.Name, UID: pod.UID}, Type: corev1.EventTypeWarning, Reason: "FailedMount",
			Message: `MountVolume.SetUp failed for volume "data": configmap "datta" not found`, LastTimestamp: ago(time.Duration(index+1) * time.Minute),
		})
	}
	other := corev1.ObjectReference{Kind: "Pod", Name: "stuck-0", UID: types.UID("a former Pod")}
	f.add(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default"}, InvolvedObject: other, Type: corev1.EventTypeWarning, Reason: "BackOff", Message: "of a former Pod"})
	f.golden("explain-warnings", "explain", "stuck")
	f.golden("describe-warnings", "describe", "stuck")
}
