// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package labels

import (
	"math"
	"strconv"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

const (
	percent = 100
	// bucketPercent is the width of a bucket of free memory.
	bucketPercent = 25
	// hysteresisPercent is how far free memory must move beyond the edge of its bucket
	// before the label changes: otherwise a load that fluctuates around an edge would cause
	// repeated writes to the API server.
	hysteresisPercent = 5
)

// freeMemory returns the bucket of the percentage of the GPUs' memory that is free, or "" if
// no GPU reports it. before is the last result.
func freeMemory(devices []gpu.Device, before string) string {
	free, all := 0.0, 0.0
	for i := range devices {
		if bytes, measured := devices[i].Values[gpu.MemoryFree]; measured && devices[i].MemoryBytes > 0 {
			free += bytes
			all += float64(devices[i].MemoryBytes)
		}
	}
	if all == 0 {
		return ""
	}
	return strconv.Itoa(bucket(free/all*percent, before))
}

// bucket returns the lower edge of the bucket of a percentage.
func bucket(now float64, before string) int {
	edge, err := strconv.Atoi(before)
	stays := err == nil && now >= float64(edge-hysteresisPercent) && now < float64(edge+bucketPercent+hysteresisPercent)
	if stays && edge%bucketPercent == 0 && edge >= 0 && edge < percent {
		return edge
	}
	const highest = percent - bucketPercent
	return min(int(math.Floor(now/bucketPercent))*bucketPercent, highest)
}
