// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Lost is the work, in GPU-seconds, that is lost if a task's Pod is evicted now.
func Lost(task *v1.GPUTask, pod *corev1.Pod, now time.Time) int64 {
	m := &member{pod: pod, task: &Task{GPUTask: task}}
	m.shape, m.err = snapshot.Shape(pod)
	s := &Scene{World: &World{Now: now}}
	return s.lost(m)
}
