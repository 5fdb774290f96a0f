// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"io/fs"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// Options configure a Source.
type Options struct {
	// Library is the path of NVIDIA's library; if empty, the dynamic linker
	// searches for libnvidia-ml.so.1.
	Library string
	// PCIeInterval is how often the PCIe throughput of each GPU is measured, in
	// between the last result is repeated; zero means never. Measuring takes 20
	// ms per direction and GPU, during which Read blocks.
	PCIeInterval time.Duration
	// SysFS is where Linux describes the PCI devices; /sys if nil.
	SysFS fs.FS
	// Clock is the real one if nil.
	Clock clock.Clock
	// Logger hears what the GPUs don't tell and which are left out; klog's if it is
	// not set.
	Logger klog.Logger
}

// Timing is how long one call took.
type Timing struct {
	// UUID is the GPU that was asked; empty if the call concerns none.
	UUID string
	// Call is the function's name, with what it is asked for where one function
	// answers several questions: "nvmlDeviceGetClockInfo(SM)".
	Call string
	Took time.Duration
	// Err is why there was no answer; it may have taken its time, too.
	Err error
}

var _ gpu.Source = (*Source)(nil)
