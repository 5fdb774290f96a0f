// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nvml is the source of real GPUs: it reads them through NVIDIA's
// library, libnvidia-ml.so.1, which comes with the driver.
//
// Two properties of go-nvml shape it. The library is opened at run time, and calling a
// function that it lacks crashes the process: nothing is called before nvmlInit has
// succeeded, and each function is looked up before its first call. And once one of its
// functions has been called, the library stays loaded for good, even after dlclose: after
// an upgrade of the driver only a new process can use it, see gpu.ErrRestart.
package nvml
