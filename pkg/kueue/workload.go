// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// mainPodSet is the pod set of a task without roles: Kueue's own name for the only one.
const mainPodSet = "main"

// Priority is the priority of a Workload.
type Priority struct {
	// Class is nil if no class was named and the cluster has no default.
	Class *PriorityClassRef
	Value int32
}

// QueueOf returns the LocalQueue that a task is submitted to; empty if it is submitted to none.
func QueueOf(task *v1.GPUTask) string { return task.Labels[LabelQueue] }

// WorkloadName returns the name of a task's Workload. It depends on the task's UID, so that a task
// never takes over the Workload of a former one that had its name.
func WorkloadName(task *v1.GPUTask) string {
	hash := sha256.Sum256([]byte(task.UID))
	return "gputask-" + task.Name + "-" + hex.EncodeToString(hash[:])[:5]
}

// ClassOf returns the class that decides on a task's place in its queue: the one that its label
// names, or that of its Pods; nil if neither is set.
func ClassOf(task *v1.GPUTask) *PriorityClassRef {
	if name := task.Labels[LabelPriorityClass]; name != "" {
		return &PriorityClassRef{Group: Group, Kind: "WorkloadPriorityClass", Name: name}
	}
	name := task.Spec.Priority
	for _, role := range gputask.Roles(task) {
		if name == "" && role.Template != nil {
			name = role.Template.Spec.PriorityClassName
		}
	}
	if name == "" {
		return nil
	}
	return PodPriorityClass(name)
}

// PodPriorityClass refers to a PriorityClass of Kubernetes.
func PodPriorityClass(name string) *PriorityClassRef {
	return &PriorityClassRef{Group: "scheduling.k8s.io", Kind: "PriorityClass", Name: name}
}

// NewWorkload returns the Workload that a task should have: a pod set for each role. An error names
// the field of the task that can't be parsed.
func NewWorkload(task *v1.GPUTask, defaults gputask.PodDefaults, priority Priority) (*Workload, error) {
	sets, err := podSets(task, defaults)
	if err != nil {
		return nil, err
	}
	seconds, err := maxExecutionTime(task)
	if err != nil {
		return nil, err
	}
	return &Workload{
		TypeMeta: metav1.TypeMeta{APIVersion: Group + "/" + Version, Kind: "Workload"},
		ObjectMeta: metav1.ObjectMeta{
			Name: WorkloadName(task), Namespace: task.Namespace,
			Labels:          map[string]string{v1.LabelTask: task.Name, LabelJobUID: string(task.UID), v1.LabelTemplateHash: gputask.TemplateHash(task)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(task, v1.TaskKind())},
		},
		Spec: WorkloadSpec{
			PodSets: sets, QueueName: QueueOf(task), MaximumExecutionTimeSeconds: seconds,
			PriorityClassRef: priority.Class, Priority: &priority.Value,
		},
	}, nil
}

// isOutdated reports whether a Workload asks for what its task wanted before it was changed. Nothing is
// known of those of earlier versions, which have no hash.
func (w *Workload) isOutdated(task *v1.GPUTask) bool {
	hash, found := w.Labels[v1.LabelTemplateHash]
	return found && hash != gputask.TemplateHash(task)
}

func maxExecutionTime(task *v1.GPUTask) (*int32, error) {
	text := task.Labels[LabelMaxExecTime]
	if text == "" {
		return nil, nil //nolint:nilnil // no limit
	}
	seconds, err := strconv.ParseInt(text, 10, 32)
	if err != nil || seconds < 1 {
		return nil, fmt.Errorf("label %s: must be a number of seconds of at least 1, is %q", LabelMaxExecTime, text)
	}
	return new(int32(seconds)), nil
}

func podSets(task *v1.GPUTask, defaults gputask.PodDefaults) ([]PodSet, error) {
	roles := gputask.Roles(task)
	sets := make([]PodSet, 0, len(roles))
	for i := range roles {
		pod, err := gputask.NewPod(task, roles[i].First, 0, defaults)
		if err != nil {
			return nil, err
		}
		set := PodSet{Name: podSetName(roles[i].Name), Template: templateOf(pod), Count: int32(podsAtOnce(task, &roles[i]))} //nolint:gosec // at most 4096
		if least := gputask.MinAvailable(task); gputask.IsGang(task) && len(roles) == 1 && least < int(set.Count) {
			set.MinCount = new(int32(least)) //nolint:gosec // less than the count
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// podsAtOnce returns how many Pods of a role exist at the same time: of an array, only some.
func podsAtOnce(task *v1.GPUTask, role *gputask.Role) int {
	if gputask.IsArray(task) {
		return gputask.Replicas(task)
	}
	return role.Count()
}

func podSetName(role string) string { return cmp.Or(role, mainPodSet) }

// templateOf returns what of a role's first Pod holds for all of them and matters to quota and
// placement. What its containers run, and with which environment, is nobody's business who may read
// Workloads.
func templateOf(pod *corev1.Pod) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}
	for _, label := range []string{v1.LabelIndex, v1.LabelRoleIndex, v1.LabelAttempt} {
		delete(template.Labels, label)
	}
	for _, containers := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Command, c.Args, c.Env, c.EnvFrom = nil, nil, nil, nil
		}
	}
	template.Spec.Hostname, template.Spec.Subdomain = "", ""
	return template
}
