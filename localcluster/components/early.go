// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build early

package components

// controllers returns none: the page can be looked at while they are being compiled.
func controllers() map[string]func() int { return nil }
