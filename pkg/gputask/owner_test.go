// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestTheOwnerOfAPodIsATaskOfItsNamespace(t *testing.T) {
	t.Parallel()
	task := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", UID: "uid"}}
	podOf := func(namespace string, change func(*metav1.OwnerReference)) *corev1.Pod {
		owner := metav1.NewControllerRef(task, v1.TaskKind())
		change(owner)
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, OwnerReferences: []metav1.OwnerReference{*owner}}}
	}
	as := func(*metav1.OwnerReference) {}
	tests := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"its own Pod":                     {podOf("team", as), true},
		"a Pod of another namespace":      {podOf("other", as), false},
		"a Pod of an earlier task":        {podOf("team", func(o *metav1.OwnerReference) { o.UID = "earlier" }), false},
		"a Pod of another kind of object": {podOf("team", func(o *metav1.OwnerReference) { o.Kind = "Job" }), false},
		"a Pod of another group":          {podOf("team", func(o *metav1.OwnerReference) { o.APIVersion = "example.com/v1" }), false},
		"a Pod that it does not control":  {podOf("team", func(o *metav1.OwnerReference) { o.Controller = nil }), false},
		"a Pod without an owner":          {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner, owned := OwnerOf(test.pod)
			if is := owned && owner == IdentityOf(task); is != test.want {
				t.Errorf("it is the task's: %t, want %t (%v)", is, test.want, owner)
			}
		})
	}
}
