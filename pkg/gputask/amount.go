// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

var (
	errGPUAmount   = errors.New(`must be a whole number of GPUs of at least "1", or a share of one GPU from "0.01" to "0.99"`)
	errSliceAmount = errors.New(`must be a whole number of MIG slices of at least "1": for a smaller part of a GPU, name a smaller profile in gpuProfile`)
	errGPUProfile  = errors.New(`must be a MIG profile in NVIDIA's notation, for example "1g.10gb"`)
)

// gpuRequest returns what each Pod of a role with GPUs requests: whole ones as gpus, a share of
// one, or MIG slices. An error names the field.
func (r *Role) gpuRequest(gpus corev1.ResourceName) (corev1.ResourceName, resource.Quantity, error) {
	if r.GPUProfile != "" {
		return r.sliceRequest(gpus)
	}
	name, quantity, err := gpuResource(r.GPUAmount)
	if err != nil {
		return "", quantity, fmt.Errorf("%s %q: %w", r.field("gpu-amount"), r.GPUAmount, err)
	}
	if name == v1.ResourceGPU {
		name = gpus
	}
	return name, quantity, nil
}

// sliceRequest is gpuRequest for a role with a gpuProfile. Whoever gives out whole GPUs gives out
// their slices.
func (r *Role) sliceRequest(gpus corev1.ResourceName) (corev1.ResourceName, resource.Quantity, error) {
	if !v1.IsMIGProfile(r.GPUProfile) {
		return "", resource.Quantity{}, fmt.Errorf("%s %q: %w", r.field("gpuProfile"), r.GPUProfile, errGPUProfile)
	}
	name, quantity, err := gpuResource(r.GPUAmount)
	if err != nil || name != v1.ResourceGPU {
		return "", resource.Quantity{}, fmt.Errorf("%s %q: %w", r.field("gpu-amount"), r.GPUAmount, errSliceAmount)
	}
	return v1.MIGResourceBeside(gpus, r.GPUProfile), quantity, nil
}

// gpuResource returns what a Pod requests for a spec.gpu-amount: whole GPUs, or
// the percentage of one for a share. Empty text means one GPU.
func gpuResource(amount string) (corev1.ResourceName, resource.Quantity, error) {
	amount = cmp.Or(amount, "1")
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

// processesPerPod returns for how many GPUs, or MIG slices, each Pod of a role starts a process: 1
// if it has a share of a GPU, or none. A process can use one slice only.
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
