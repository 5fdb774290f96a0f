// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/checkpoint"
)

const (
	// checkpointVolume is the volume with the file from which a container learns that it should
	// save its work, checkpointFolder where it is mounted.
	checkpointVolume = "gputask"
	checkpointFolder = "/etc/gputask"
	checkpointFile   = "checkpoint-requested"
	// defaultCheckpointTimeout is the default of the CRD's schema, in seconds.
	defaultCheckpointTimeout = 60
)

// DefaultGracePeriod is how long a Pod may take to terminate if nothing else is specified.
const DefaultGracePeriod = 30 * time.Second

// CheckpointTimeout returns how long the Pods of a task may take to save their work before they are
// stopped; 0 if they are not asked to.
func CheckpointTimeout(task *v1.GPUTask) time.Duration {
	if task.Spec.Checkpoint == nil || task.Spec.Checkpoint.Mode != v1.CheckpointSignal {
		return 0
	}
	return checkpointSeconds(task.Spec.Checkpoint)
}

// GracePeriod returns how long the Pods of a task may take to terminate.
func GracePeriod(task *v1.GPUTask) (longest time.Duration) {
	for _, role := range Roles(task) {
		longest = max(longest, gracePeriod(task, role.Template))
	}
	return longest
}

// gracePeriod returns how long a Pod with a template may take to terminate.
func gracePeriod(task *v1.GPUTask, template *corev1.PodTemplateSpec) time.Duration {
	grace := DefaultGracePeriod
	if template != nil && template.Spec.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*template.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	if wanted := task.Spec.Checkpoint; wanted != nil && wanted.Mode == v1.CheckpointPreStop {
		grace = max(grace, checkpointSeconds(wanted))
	}
	return grace
}

func checkpointSeconds(wanted *v1.Checkpoint) time.Duration {
	return time.Duration(ptr.Deref(wanted.TimeoutSeconds, defaultCheckpointTimeout)) * time.Second
}

// applyCheckpoint gives a Pod what it needs to save its work before it is stopped.
func applyCheckpoint(pod *corev1.Pod, task *v1.GPUTask, template *corev1.PodTemplateSpec) {
	if task.Spec.Checkpoint == nil {
		return
	}
	switch task.Spec.Checkpoint.Mode {
	case v1.CheckpointSignal:
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.AnnotationCheckpointTimeout, seconds(CheckpointTimeout(task)))
		mountRequest(&pod.Spec)
	case v1.CheckpointPreStop:
		pod.Spec.TerminationGracePeriodSeconds = new(int64(gracePeriod(task, template).Seconds()))
	case v1.CheckpointNone:
	}
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

// mountRequest shows the annotation with the request to the containers as a file, unless the
// template has something else in its place.
func mountRequest(spec *corev1.PodSpec) {
	mountEverywhere(spec, corev1.VolumeMount{MountPath: checkpointFolder, ReadOnly: true}, corev1.Volume{Name: checkpointVolume, VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
			Path:     checkpointFile,
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + v1.AnnotationCheckpointRequested + "']"},
		}}},
	}})
}

// confirmCheckpoints passes the time of the task's last checkpoint on to Pods that were asked for
// one: gpu-scheduler looks at Pods only.
func (d *decision) confirmCheckpoints() {
	saved := checkpoint.LastOf(d.Task)
	for _, pod := range d.Pods {
		own := checkpoint.Pod{Pod: pod}
		if checkpoint.IsRequested(pod) && saved.After(own.Last()) && outcomeOf(pod).isActive() {
			d.plan.Confirm = append(d.plan.Confirm, pod)
		}
	}
	d.plan.LastCheckpoint = saved
}
