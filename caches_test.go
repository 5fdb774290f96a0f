// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestAPodOfAnotherNamespaceIsNoMember: whoever knows a task's UID can name it as the owner of
// their own Pods.
func TestAPodOfAnotherNamespaceIsNoMember(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.store(newTask("train", 1))
	f.mustSync(task)
	f.observe()
	forged := f.podOf(task)
	forged.Namespace, forged.Status.Phase = "attacker", corev1.PodSucceeded
	f.show(forged)
	if pods := f.podsOf(task); len(pods) != 1 || pods[0].Namespace != task.Namespace {
		t.Errorf("%d Pods are the task's: %v", len(pods), pods)
	}
	f.mustSync(task)
	if got := f.stored(task).Status; got.Phase != v1.PhasePending || got.Succeeded > 0 {
		t.Errorf("phase %s, %d succeeded", got.Phase, got.Succeeded)
	}
}
