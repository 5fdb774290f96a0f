// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"math"
	"strconv"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Factors returns the fair-share factors that the queues' statuses show, by name. Queues
// without one are left out.
func Factors(queues []*v1.GPUQueue) map[string]float64 {
	factors := make(map[string]float64, len(queues))
	for _, queue := range queues {
		if usage := queue.Status.Usage; usage != nil {
			if factor, err := strconv.ParseFloat(usage.Factor, 64); err == nil && factor >= 0 && !math.IsInf(factor, 0) {
				factors[queue.Name] = factor
			}
		}
	}
	return factors
}
