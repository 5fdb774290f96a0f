// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpu

// ProcessSource is a Source that can tell which processes use its GPUs.
type ProcessSource interface {
	Source
	// Processes reads the processes that use a GPU. It may be called when Read may be called
	// for the same GPU, and not at the same time. ErrUnsupported means that it will never
	// succeed for this GPU.
	Processes(uuid string) (*ProcessSample, error)
}

// ProcessSample is what the processes that use a GPU used when they were read.
type ProcessSample struct {
	// Measured are the quantities that were measured: MemoryUsed, and Utilization (of the
	// multiprocessors), MemoryUtilization, EncoderUtilization and DecoderUtilization since
	// the last call.
	Measured []Quantity
	// Processes has a process for each PID.
	Processes []Process
}

// Process is a process that uses a GPU.
type Process struct {
	// PID is its ID in the PID namespace of this agent. Recent drivers don't report a process
	// that does not exist there.
	PID int
	// Values are those of the measured quantities that are not 0.
	Values Values
}
