// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mps finds out whether the control daemon of NVIDIA's Multi-Process Service runs,
// and keeps it running if it is asked to.
//
// The daemon has its files in the directory CUDA_MPS_PIPE_DIRECTORY: the UNIX socket control,
// to which every client connects first, control_privileged, control_lock, the FIFO log and
// nvidia-cuda-mps-control.pid. They stay behind when it is killed. A CUDA program that finds
// nobody behind the socket runs without MPS, and without limits:
// https://docs.nvidia.com/deploy/mps/latest/architecture.html
package mps
