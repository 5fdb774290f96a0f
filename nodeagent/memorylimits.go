// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi/nvidia"
)

// controllersFile is there if control groups are of version 2.
const controllersFile = "/sys/fs/cgroup/cgroup.controllers"

// memoryLimits reports whether NVIDIA's hook is to limit the memory of shares, and returns why it
// can't on this node although it is meant to. Whether the driver can is found out when the GPUs
// are described.
func memoryLimits(opts *options, strategy string, hook *nvidia.Options) (limits bool, err error) {
	if opts.memoryLimits != memoryLimitsDriver {
		return false, nil
	}
	if strategy != strategyCDI || opts.injection.cdiKind != cdi.Kind {
		return false, fmt.Errorf("--share-memory-limits=%s: needs --device-list-strategy=%s with --cdi-kind=%s, since the container runtime calls NVIDIA's hook", memoryLimitsDriver, strategyCDI, cdi.Kind)
	}
	if opts.Simulated() {
		return true, nil // containers are told their limits, and nothing enforces them
	}
	if _, err := os.Stat(controllersFile); err != nil {
		return false, fmt.Errorf("--share-memory-limits=%s: control groups must be of version 2: %w", memoryLimitsDriver, err)
	}
	if err := hook.HookLimitsMemory(); err != nil {
		return false, fmt.Errorf("--share-memory-limits=%s: %w", memoryLimitsDriver, err)
	}
	return true, nil
}
