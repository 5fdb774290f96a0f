// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package release

import "testing"

func TestAReleaseIsInstalledOnLinux(t *testing.T) {
	t.Skip("a real node needs Linux")
}
