// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// kind is a number of tasks with the same number of Pods and GPUs per Pod.
type kind struct{ tasks, pods, gpus int }

// usual returns the large tasks that wait.
func usual() []kind { return []kind{{4, 1, 8}, {1, 2, 8}, {1, 4, 4}} }

// coresPerGPU and memoryPerGPU, in MiB, are what large tasks request besides GPUs.
const (
	coresPerGPU  = 4
	memoryPerGPU = 16 << 10
)

// demand returns large tasks, one of each kind in turn.
func demand(kinds []kind) []*job {
	var list []*job
	for n := 0; ; n++ {
		more := false
		for _, kind := range kinds {
			if n >= kind.tasks {
				continue
			}
			more = true
			list = append(list, largeJob(n, kind.pods, kind.gpus))
		}
		if !more {
			return list
		}
	}
}

// largeJob returns a task that needs whole GPUs in a number of Pods.
func largeJob(number, pods, gpus int) *job {
	shape := placement.Shape{CPU: int64(gpus) * coresPerGPU * 1000, Memory: int64(gpus) * memoryPerGPU, GPUs: gpus}
	j := newJob(fmt.Sprintf("large-%dx%d-%d", pods, gpus, number), shape, pods)
	j.ends = math.Inf(1)
	return j
}
