// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package realnode

import "testing"

func TestARealNodeNeedsLinux(t *testing.T) {
	t.Skip("a real node needs Linux")
}
