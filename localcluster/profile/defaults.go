// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

const (
	defaultCPU    = "192"
	defaultMemory = "2Ti"
	defaultPods   = 110 // the kubelet's own default
	mebibytes     = 1024
)

// gigabytesInModel matches the memory size that most models have in their name,
// as in "h100-80gb-hbm3".
var gigabytesInModel = regexp.MustCompile(`(?:^|-)(\d+)gb(?:-|$)`)

func setDefaults(group *NodeGroup) {
	group.CPU = cmp.Or(group.CPU, defaultCPU)
	group.Memory = cmp.Or(group.Memory, defaultMemory)
	group.Pods = cmp.Or(group.Pods, defaultPods)
	if group.GPUsPerNode > 0 {
		group.GPUMemory = cmp.Or(group.GPUMemory, memoryOfModel(group.Model))
	}
}

// memoryOfModel returns "" for a model without its memory size in the name.
func memoryOfModel(model string) string {
	match := gigabytesInModel.FindStringSubmatch(model)
	if match == nil {
		return ""
	}
	gigabytes, err := strconv.Atoi(match[1])
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%dMi", gigabytes*mebibytes)
}
