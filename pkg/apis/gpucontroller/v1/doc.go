// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 is the falldio.com/v1 API: the GPUTask object, and the labels and
// resource names by which the processes of gpu-controller understand each
// other.
//
// +k8s:deepcopy-gen=package
// +groupName=falldio.com
package v1
