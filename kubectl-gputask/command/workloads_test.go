// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// notebookPod returns a Pod that is controlled by something else; by nothing if it has no kind.
func notebookPod(name, kind, owner, gpus, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-pod-" + name), CreationTimestamp: ago(time.Hour)}}
	pod.Labels = map[string]string{"pod-template-hash": "5d4f"}
	if kind != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, UID: types.UID(owner), Controller: new(true)}}
	}
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodPending
	if node != "" {
		pod.Status.Phase = corev1.PodRunning
	}
	amount := corev1.ResourceList{v1.ResourceGPU: resource.MustParse(gpus)}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amount, Limits: amount}}}
	return pod
}

// withWorkloads adds Pods that no GPUTask controls.
func withWorkloads(t *testing.T) *fixture {
	t.Helper()
	f := withTasks(t)
	f.add(
		notebookPod("nb", "", "", "8", ""), notebookPod("train-x1", "Job", "train", "8", ""), notebookPod("train-x2", "Job", "train", "8", ""),
		notebookPod("web-5d4f-a", "ReplicaSet", "web-5d4f", "1", "a100-0"), notebookPod("db-0", "StatefulSet", "db", "4", ""),
	)
	return f
}

func TestExplainTakesWhateverHasPodsWithGPUs(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"a Pod", "explain-pod", "explain pod/nb"},
		{"a Job", "explain-job", "explain jobs.batch/train"},
		{"a Deployment, which runs", "explain-deployment", "explain deploy/web"},
		{"a StatefulSet beside a task", "explain-statefulset", "explain sts/db small-0"},
		{"a Pod of a task is the task", "explain-pod-of-task", "explain pod/small-0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			withWorkloads(t).golden(test.golden, strings.Fields(test.args)...)
		})
	}
	t.Run("of its namespace, without the right to see more", func(t *testing.T) {
		t.Parallel()
		f := withWorkloads(t)
		f.refuse("nodes", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil), nil)
		f.golden("explain-pod-forbidden", "explain", "pod/nb", "pod/small-0")
	})
	if got := errorText(withWorkloads(t).run("explain", "job/other")); got != "there are no waiting or running Pods of job/other in namespace default" {
		t.Errorf("error %q", got)
	}
}
