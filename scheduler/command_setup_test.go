// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/scheduler/eventfilter"
)

// arrayPod returns a Pod of an array, which wants two CPUs.
func arrayPod(index int) *corev1.Pod {
	name := fmt.Sprintf("sweep-%d", index)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "falldio.com/v1", Kind: "GPUTask", Name: "sweep", UID: "sweep", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Containers:    []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}},
		},
	}
}

// refused returns how many Pods have the condition that they can't be scheduled, with a message.
func refused(ctx context.Context, client *fake.Clientset) (count int, err error) {
	pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for i := range pods.Items {
		for _, condition := range pods.Items[i].Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && strings.Contains(condition.Message, "Insufficient cpu") {
				count++
			}
		}
	}
	return count, nil
}

// All Pods of an array get the condition, which programs read, but one Event is enough for people.
func TestKubeSchedulerWarnsOnceAboutAnArrayThatFindsNoRoom(t *testing.T) {
	t.Parallel()
	const members = 6
	client := fake.NewClientset(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("9")}},
	})
	for index := range members {
		if err := client.Tracker().Add(arrayPod(index)); err != nil {
			t.Fatal(err)
		}
	}
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	written := events.NewFakeRecorder(1000)
	informers := scheduler.NewInformerFactory(client, 0, nil)
	running, err := scheduler.New(t.Context(), client, informers, nil,
		eventfilter.Wrap(func(string) events.EventRecorderLogger { return written }, clock.RealClock{}), scheduler.WithProfiles(defaults.Profiles[0]))
	if err != nil {
		t.Fatal(err)
	}
	informers.Start(t.Context().Done())
	if err := running.WaitForHandlersSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	go running.Run(t.Context())
	err = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		count, err := refused(ctx, client)
		return count == members, err
	})
	if err != nil {
		t.Fatalf("not all Pods have the condition: %v", err)
	}
	if got := len(written.Events); got != 1 {
		t.Errorf("%d Events for %d Pods, want 1", got, members)
	}
	if event := <-written.Events; !strings.Contains(event, "Insufficient cpu") {
		t.Errorf("Event %q", event)
	}
}
