// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"errors"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

var errGPUAmount = errors.New(`must be a whole number of GPUs of at least "1", or a share of one GPU from "0.01" to "0.99"`)

// gpuResource returns what a Pod requests for a spec.gpu-amount: whole GPUs, or
// the percentage of one for a share. Empty text means one GPU.
func gpuResource(amount string) (corev1.ResourceName, resource.Quantity, error) {
	if amount == "" {
		amount = "1"
	}
	name := v1.ResourceGPU
	if decimals, isShare := strings.CutPrefix(amount, "0."); isShare {
		name, amount = v1.ResourceGPUPercent, percent(decimals)
	}
	count, err := strconv.ParseUint(amount, 10, 16)
	if err != nil || count == 0 {
		return "", resource.Quantity{}, errGPUAmount
	}
	return name, *resource.NewQuantity(int64(count), resource.DecimalSI), nil
}

// processesPerPod returns for how many GPUs each Pod of a role starts a process: 1 if it has a
// share of one, or none.
func processesPerPod(role *Role) int {
	if !role.hasGPUs() {
		return 1
	}
	name, quantity, err := gpuResource(role.GPUAmount)
	if err != nil || name != v1.ResourceGPU {
		return 1
	}
	return int(quantity.Value())
}

// percent converts the decimals of a share into percent: "5" into "50". For other text it
// returns 0 or no number.
func percent(decimals string) string {
	switch len(decimals) {
	case 1:
		return decimals + "0"
	case 2:
		return decimals
	default:
		return ""
	}
}
