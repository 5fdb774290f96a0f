// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Lost returns the work, in GPU-seconds, that is lost if a task's Pod is evicted now.
func Lost(task *v1.GPUTask, pod *corev1.Pod, now time.Time) int64 {
	m := &clusterview.Member{Pod: pod, Task: &clusterview.Task{GPUTask: task}}
	m.Shape, m.Err = snapshot.Shape(pod)
	return lost(m, now)
}
