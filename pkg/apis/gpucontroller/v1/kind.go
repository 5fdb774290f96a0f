// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import "k8s.io/apimachinery/pkg/runtime/schema"

// TaskKind is the kind of GPUTask, as owner references name it.
func TaskKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: GroupName, Version: GroupVersion.Version, Kind: "GPUTask"}
}
