// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// foreignMIG begins the resources of MIG slices that NVIDIA's device plugin gives out.
const foreignMIG = "nvidia.com/mig-"

// IsOwnMIG reports whether a resource is MIG slices that nodeagent gives out.
func IsOwnMIG(resource string) bool {
	_, own := v1.MIGProfileOf(corev1.ResourceName(resource))
	return own
}

// IsMIG reports whether a resource is MIG slices, whoever gives them out.
func IsMIG(resource string) bool {
	return IsOwnMIG(resource) || strings.HasPrefix(resource, foreignMIG)
}
