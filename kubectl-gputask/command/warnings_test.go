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
		task.Status.Message = "both Pods wait to start: Pod stuck-0 on node h100-0 has not started since 2026-11-21 11:50:00 UTC (ContainerCreating)"
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

func TestADescriptionSaysOnceWhatIsSaidOftenAndWhatToDoNext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := newTask("sweep", "h100", "1", replicas(3), func(task *v1.GPUTask) {
		task.Status = v1.GPUTaskStatus{Phase: v1.PhaseFailed, Message: "7 failures: the last was exit code 1"}
	})
	f.add(task)
	event := func(name, about string, minutes int, change func(*corev1.Event)) {
		event := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: about},
			Type: corev1.EventTypeWarning, Reason: "FailedScheduling", Message: "4 nodes have too few free GPUs",
			FirstTimestamp: ago(time.Duration(minutes) * time.Minute), LastTimestamp: ago(time.Duration(minutes) * time.Minute), ReportingController: "gpu-scheduler",
		}
		change(event)
		f.add(event)
	}
	for index := range 3 {
		pod := podOf(task, index, 0)
		if index == 1 {
			pod.Status.Phase = corev1.PodFailed
		}
		f.add(pod)
		event(fmt.Sprintf("few-%d", index), pod.Name, 10-index, func(*corev1.Event) {})
		event(fmt.Sprintf("pulled-%d", index), pod.Name, 9, func(event *corev1.Event) {
			event.Type, event.Reason, event.Message = corev1.EventTypeNormal, "Pulled", "image pulled"
		})
	}
	event("again", "sweep-0", 6, func(event *corev1.Event) { event.Count = 2 })
	event("preempted", "sweep-2", 5, func(event *corev1.Event) {
		event.Type, event.Reason, event.Message = corev1.EventTypeNormal, "Preempted", "Preempted: by Pod default/big-0 of priority 100"
	})
	event("before", "sweep-2", 90, func(event *corev1.Event) { event.Message = "of an earlier task" })
	event("others", "other-0", 5, func(event *corev1.Event) { event.Message = "of another task" })
	for index := range 4 {
		event(fmt.Sprintf("failed-%d", index), "sweep", 4-index, func(event *corev1.Event) {
			event.InvolvedObject = corev1.ObjectReference{Kind: "GPUTask", Name: "sweep", UID: task.UID}
			event.Reason, event.Message, event.ReportingController = "PodFailed", "a Pod failed: exit code 1", "gpu-controller"
		})
	}
	f.golden("describe-events", "describe", "sweep")
}
