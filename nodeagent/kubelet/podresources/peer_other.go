// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package podresources

import "context"

// SeesKubelet returns false: only Linux has PID namespaces.
func SeesKubelet(context.Context, string) (bool, error) { return false, nil }
