// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "falldio.github.io/gpu-controller/nodeagent/hardware/gpu"

// pcieRoot is unknown where there is no sysfs.
func pcieRoot(*gpu.Info) string { return "" }
