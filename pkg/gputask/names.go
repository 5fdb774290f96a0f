// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Replicas returns the number of Pods that a task has at the same time, at least 1.
func Replicas(task *v1.GPUTask) int {
	if len(task.Spec.Roles) > 0 {
		return Total(task)
	}
	return min(atLeastOne(task.Spec.Replicas), Total(task))
}

// Total returns the number of Pods that a task is made of, at least 1: that of all its roles, and
// of an array with those that have not begun.
func Total(task *v1.GPUTask) int {
	if len(task.Spec.Roles) > 0 {
		total := 0
		for i := range task.Spec.Roles {
			total += atLeastOne(task.Spec.Roles[i].Replicas)
		}
		return total
	}
	if task.Spec.Completions != nil {
		return atLeastOne(task.Spec.Completions)
	}
	return atLeastOne(task.Spec.Replicas)
}

func atLeastOne(n *int32) int { return max(int(ptr.Deref(n, 1)), 1) }

// IsArray reports whether the Pods of a task run independently of each other.
func IsArray(task *v1.GPUTask) bool { return task.Spec.Completions != nil }

// IsGang reports whether a task is made of several Pods that start together. An elastic gang is
// one even while it has a single Pod.
func IsGang(task *v1.GPUTask) bool {
	return !IsArray(task) && (len(task.Spec.Roles) > 0 || task.Spec.MaxReplicas != nil || Replicas(task) > 1)
}

// PodName returns the name of the Pod of the member with the given index: the task's name for a
// task of one Pod, <task>-<role>-<index within the role> in a task with roles, else
// <task>-<index>.
func PodName(task *v1.GPUTask, index int) string {
	if !IsGang(task) && !IsArray(task) {
		return task.Name
	}
	role := roleAt(task, index)
	return podPrefix(task, role.Name) + strconv.Itoa(index-role.First)
}

// podPrefix returns what the names of a role's Pods have in common.
func podPrefix(task *v1.GPUTask, role string) string {
	if role == "" {
		return task.Name + "-"
	}
	return task.Name + "-" + role + "-"
}

// memberIndex returns the index of the member whose Pod has the given name. It is the inverse of
// PodName.
func memberIndex(task *v1.GPUTask, roles []Role, name string) (index int, found bool) {
	if !IsGang(task) && !IsArray(task) {
		return 0, name == task.Name
	}
	for i := range roles {
		text, found := strings.CutPrefix(name, podPrefix(task, roles[i].Name))
		if !found {
			continue
		}
		index, err := strconv.Atoi(text)
		if err == nil && strconv.Itoa(index) == text && index >= 0 && index < roles[i].Count() {
			return roles[i].First + index, true
		}
	}
	return 0, false
}

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
