// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/bench/measure"
	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/attribution"
)

// attributing measures what a poll of a shared GPU costs beside the driver's calls: the
// containers of its 20 processes, in 20 Pods, are looked up, and what they use is added up.
func attributing(ctx context.Context, rounds int) measure.Contest {
	const processes = 20
	proc := os.DirFS("/proc")
	var pods []*corev1.Pod
	var holders []attribution.Container
	sample := &gpu.ProcessSample{Measured: []gpu.Quantity{gpu.MemoryUsed, gpu.Utilization, gpu.MemoryUtilization, gpu.EncoderUtilization, gpu.DecoderUtilization}}
	for i := range processes {
		name := fmt.Sprint("pod-", i)
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: name},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ContainerID: fmt.Sprintf("containerd://%064d", i)}}},
		})
		holders = append(holders, attribution.Container{Namespace: "bench", Pod: name, Name: "main"})
		// The kernel does the same for each process.
		sample.Processes = append(sample.Processes, gpu.Process{PID: os.Getpid(), Values: gpu.Values{gpu.MemoryUsed: 1 << 30, gpu.Utilization: 0.05}})
	}
	return measure.Contest{
		Name: "containers of 20 processes", Rounds: rounds,
		Ours: func() error {
			containers := attribution.NewContainers(pods)
			usage := attribution.Sum(sample, func(pid int) (attribution.Container, bool) { return containers.OfProcess(proc, pid) })
			if uses, _ := usage.Split(holders); len(uses) != processes {
				return fmt.Errorf("%d containers use the GPU, want %d", len(uses), processes)
			}
			return nil
		},
		Than:     "start of an empty process",
		Baseline: func() error { return exec.CommandContext(ctx, "true").Run() },
	}
}
