// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

var serviceResource = schema.GroupResource{Resource: "services"}

func TestADeletedServiceIsCreatedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 2))
	f.mustSync(task)
	f.observe()
	if err := f.kube.CoreV1().Services("default").Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.observe()
	f.mustSync(task)
	if diff := cmp.Diff([]string{"create services"}, f.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestNoPodIsCreatedBeforeItsServiceExists(t *testing.T) {
	t.Parallel()
	quota := apierrors.NewForbidden(serviceResource, "train", errors.New("exceeded quota: services, requested: services=1, used: services=2, limited: services=2"))
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default"}}
	previous := gputask.NewService(newTask("train", 2))
	previous.OwnerReferences[0].UID = "uid-of-previous-task"
	tests := map[string]struct {
		existing        *corev1.Service
		err             error
		reason, message string
	}{
		"because of a quota": {
			err: quota, reason: "QuotaExceeded", message: "exceeded quota: services, requested: services=1, limited: services=2",
		},
		"because somebody else's has its name": {
			existing: foreign, reason: "ServiceNameTaken", message: `a Service named "train" exists already and does not belong to this task`,
		},
		"because that of a previous task still exists": {
			existing: previous, reason: "WaitingForOldPod", message: `waiting for the Service "train" of a previous task to be deleted`,
		},
		"because of a webhook": {
			err: apierrors.NewInternalError(errors.New("webhook")), reason: "ServiceRefused", message: "the API server refuses the Service: ",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if tc.existing != nil {
				if err := f.kube.Tracker().Add(tc.existing); err != nil {
					t.Fatal(err)
				}
			}
			if tc.err != nil {
				failNext(&f.kube.Fake, "create", "services", 1, tc.err)
			}
			task := f.store(newTask("train", 2))
			if err := f.sync(task); err == nil {
				t.Error("no error, so that nothing tries again")
			}
			if names := f.podNames(); names != nil {
				t.Errorf("Pods %v exist", names)
			}
			f.observe()
			f.mustSync(task)
			if names := f.podNames(); names != nil {
				t.Errorf("Pods %v exist", names)
			}
			condition := meta.FindStatusCondition(f.stored(task).Status.Conditions, v1.ConditionPodsCreated)
			if condition == nil || condition.Reason != tc.reason || !strings.Contains(condition.Message, tc.message) {
				t.Errorf("the condition is %v", condition)
			}
		})
	}
}
