// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// RequireNetwork skips a test if Pods can't have a network of their own.
func RequireNetwork(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(networkPlugins, "bridge")); err == nil {
		return
	}
	text := fmt.Sprintf("%s lacks the network plugins: install the package containernetworking-plugins", networkPlugins)
	if os.Getenv(requiredVariable) != "" {
		t.Fatal(text)
	}
	t.Skip(text)
}
