// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cdi describes a node's GPUs to its container runtime by the Container Device
// Interface, https://github.com/cncf-tags/container-device-interface. The description is a
// file, the CDI specification. Whenever the runtime creates a container that the kubelet has
// given devices of it, it reads the file and does what it says: adds device nodes, mounts and
// environment variables. Unlike an environment variable that lists GPUs, this works with any
// runtime class, and a Pod can't override it.
package cdi
