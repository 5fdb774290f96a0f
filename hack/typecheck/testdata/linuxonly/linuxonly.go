// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package linuxonly compiles for Linux only: no other system has this field.
package linuxonly

import "syscall"

// EndsWithItsParent returns what makes a process end with its parent.
func EndsWithItsParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
