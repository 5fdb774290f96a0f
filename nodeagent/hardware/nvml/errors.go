// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// initError returns why there is no connection to the driver, and how to fix it.
func initError(ret nvml.Return, library string) error {
	if library == "" {
		library = "libnvidia-ml.so.1"
	}
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return fmt.Errorf("%w: %w: %s can't be loaded: install NVIDIA's driver, and let the container see its library "+
			"(runtimeClassName: nvidia, or mount it and name its path): nvmlInit: %w", gpu.ErrUnavailable, gpu.ErrInaccessible, library, ret)
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return fmt.Errorf("%w: NVIDIA's kernel module is not loaded (modprobe nvidia; dmesg has the reason): nvmlInit: %w",
			gpu.ErrUnavailable, ret)
	case nvml.ERROR_NO_PERMISSION, nvml.ERROR_OPERATING_SYSTEM:
		return fmt.Errorf("%w: %w: let it open /dev/nvidiactl and /dev/nvidia* "+
			"(runtimeClassName: nvidia with NVIDIA_VISIBLE_DEVICES=all, or a privileged container): nvmlInit: %w",
			gpu.ErrUnavailable, gpu.ErrInaccessible, ret)
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return fmt.Errorf("%w: %w: %s and the driver are of different versions, as after an upgrade; "+
			"if a restart does not help, the machine must be rebooted: nvmlInit: %w",
			gpu.ErrUnavailable, gpu.ErrRestart, library, ret)
	case nvml.ERROR_GPU_NOT_FOUND:
		return fmt.Errorf("%w: the driver has no GPU: nvmlInit: %w", gpu.ErrUnavailable, ret)
	default:
		return fmt.Errorf("%w: nvmlInit: %w", gpu.ErrUnavailable, ret)
	}
}

// callError returns the error of a gpu.Source for a failed call.
func callError(call string, ret nvml.Return) error {
	switch ret {
	case nvml.ERROR_GPU_IS_LOST:
		return fmt.Errorf("%w: %s: %w", gpu.ErrLost, call, ret)
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return fmt.Errorf("%w: %s: %w", gpu.ErrStale, call, ret)
	default:
		return fmt.Errorf("%s: %w", call, ret)
	}
}

// fatal reports whether all other calls for this GPU would fail, too.
func fatal(ret nvml.Return) bool {
	switch ret {
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return true
	default:
		return false
	}
}

// unsupported reports whether the call will fail as long as the connection lasts.
func unsupported(ret nvml.Return) bool {
	switch ret {
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_FUNCTION_NOT_FOUND,
		nvml.ERROR_ARGUMENT_VERSION_MISMATCH, nvml.ERROR_DEPRECATED, nvml.ERROR_INVALID_ARGUMENT:
		return true
	default:
		return false
	}
}
