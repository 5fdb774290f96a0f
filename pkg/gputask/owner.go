// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// ControllerOf returns the reference to the GPUTask that controls an object, nil if none does.
func ControllerOf(object metav1.Object) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || owner.Kind != v1.TaskKind().Kind || owner.APIVersion != v1.TaskKind().GroupVersion().String() {
		return nil
	}
	return owner
}

// Identity identifies a task to its Pods. An owner is always in the namespace of what it owns;
// the UID alone is not enough, as anybody who knows it can name it in another namespace.
type Identity struct {
	Namespace string
	UID       types.UID
}

// IdentityOf returns the identity of a task.
func IdentityOf(task *v1.GPUTask) Identity {
	return Identity{Namespace: task.Namespace, UID: task.UID}
}

// OwnerOf returns the identity of the task that controls a Pod; owned is false if none does.
func OwnerOf(pod *corev1.Pod) (owner Identity, owned bool) {
	ref := ControllerOf(pod)
	if ref == nil {
		return Identity{}, false
	}
	return Identity{Namespace: pod.Namespace, UID: ref.UID}, true
}

// String returns the identity as a key.
func (i Identity) String() string { return i.Namespace + "/" + string(i.UID) }
