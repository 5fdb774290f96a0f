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
	// PCIeInterval is how often the PCIe throughput of each GPU is measured; in between,
	// the last result is reused. Zero means never. Measuring takes 20 ms per direction and
	// GPU, during which Read blocks.
	PCIeInterval time.Duration
	// AllVisible is true if this process may use all of the machine's GPUs, so that the
	// library should find as many as there are on the PCI bus.
	AllVisible bool
	// SysFS is where Linux describes the PCI devices; /sys if nil.
	SysFS fs.FS
	// ProcFS is where the driver describes the device files of MIG devices; /proc if nil.
	ProcFS fs.FS
	// Clock is the real clock if nil.
	Clock clock.Clock
	// Logger logs properties that can't be read and GPUs that are skipped; klog's if not
	// set.
	Logger klog.Logger
}

// Timing is how long one call took.
type Timing struct {
	// UUID is the GPU that was queried; empty if the call concerns none.
	UUID string
	// Call is the function's name, with its argument if it reads several values:
	// "nvmlDeviceGetClockInfo(SM)".
	Call string
	Took time.Duration
	// Err is why the call failed; that may also have taken long.
	Err error
}

var _ gpu.ProcessSource = (*Source)(nil)
