// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// workload is a Pod, or what controls some, as kubectl names it: pod/notebook, job/train.
type workload struct{ kind, name string }

// separated returns the names of tasks and of other workloads among the arguments.
func separated(args []string) (tasks []string, others []workload) {
	shortNames := map[string]string{
		"po": "pod", "pods": "pod", "jobs": "job", "deploy": "deployment", "deployments": "deployment", "rs": "replicaset", "replicasets": "replicaset",
		"sts": "statefulset", "statefulsets": "statefulset", "ds": "daemonset", "daemonsets": "daemonset",
	}
	for _, arg := range args {
		kind, name, qualified := strings.Cut(arg, "/")
		kind, _, _ = strings.Cut(strings.ToLower(kind), ".") // without the group
		if !qualified || name == "" || slices.Contains([]string{"gputask", "gputasks", "gt"}, kind) {
			tasks = append(tasks, arg)
			continue
		}
		others = append(others, workload{cmp.Or(shortNames[kind], kind), name})
	}
	return tasks, others
}

func (w workload) String() string { return w.kind + "/" + w.name }

// has reports whether a Pod is the workload, or belongs to it.
func (w workload) has(pod *corev1.Pod) bool {
	if w.kind == "pod" {
		return pod.Name == w.name
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case owner == nil:
		return false
	case w.kind == "deployment":
		return owner.Kind == "ReplicaSet" && owner.Name == w.name+"-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	default:
		return strings.EqualFold(owner.Kind, w.kind) && owner.Name == w.name
	}
}

// asTask returns the workload as a task. If its Pod is that of a GPUTask, it is only the name of that.
func (w workload) asTask(namespace string, pods []*corev1.Pod) (task clusterview.Task, owner string, err error) {
	own := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		return pod.Namespace != namespace || podfacts.Ended(pod) || !w.has(pod)
	})
	if len(own) == 0 {
		return task, "", fmt.Errorf("there are no waiting or running Pods of %s in namespace %s", w, namespace)
	}
	if controller := metav1.GetControllerOfNoCopy(own[0]); controller != nil && controller.Kind == v1.TaskKind().Kind {
		return task, controller.Name, nil
	}
	slices.SortFunc(own, func(a, b *corev1.Pod) int { return analysis.ComparePodNames(a.Name, b.Name) })
	return analysis.AsTask(namespace, w.String(), own), "", nil
}

// asTasks returns workloads as tasks, and the names of the GPUTasks that control Pods among them.
func asTasks(namespace string, list []workload, pods []*corev1.Pod) (tasks []clusterview.Task, owners []string, failures []error) {
	for _, one := range list {
		task, owner, err := one.asTask(namespace, pods)
		switch {
		case err != nil:
			failures = append(failures, err)
		case owner != "":
			owners = append(owners, owner)
		default:
			tasks = append(tasks, task)
		}
	}
	return tasks, owners, failures
}
