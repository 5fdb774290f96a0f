// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// large are the tasks that wait, so often each: Pods × GPUs.
var large = []struct{ tasks, pods, gpus int }{
	{4, 1, 8}, {2, 2, 8}, {2, 4, 4},
}

// coresPerGPU and memoryPerGPU, in MiB, are what large tasks want besides.
const (
	coresPerGPU  = 4
	memoryPerGPU = 16 << 10
)

// demand returns the large tasks, by turns of each kind.
func demand() []*job {
	var list []*job
	for n := 0; ; n++ {
		more := false
		for _, kind := range large {
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
