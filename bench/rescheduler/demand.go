// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// kind is tasks of so many Pods with so many GPUs each.
type kind struct{ tasks, pods, gpus int }

// usual are the large tasks that wait.
func usual() []kind { return []kind{{4, 1, 8}, {1, 2, 8}, {1, 4, 4}} }

// coresPerGPU and memoryPerGPU, in MiB, are what large tasks want besides.
const (
	coresPerGPU  = 4
	memoryPerGPU = 16 << 10
)

// demand returns large tasks, by turns of each kind.
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

// largeJob is a task that wants whole GPUs in so many Pods.
func largeJob(number, pods, gpus int) *job {
	shape := placement.Shape{CPU: int64(gpus) * coresPerGPU * 1000, Memory: int64(gpus) * memoryPerGPU, GPUs: gpus}
	j := newJob(fmt.Sprintf("large-%dx%d-%d", pods, gpus, number), shape, pods)
	j.ends = math.Inf(1)
	return j
}
