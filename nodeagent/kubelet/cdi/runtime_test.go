// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import "testing"

func TestInjectedBy(t *testing.T) {
	t.Parallel()
	for runtime, want := range map[string]bool{
		"containerd://2.1.4":            true,
		"containerd://2.0.0":            true,
		"containerd://v2.2.0-rc.1":      true,
		"containerd://1.7.24~ds1":       false, // only if enable_cdi is set
		"containerd://1.6.20~ds1":       false,
		"cri-o://1.34.1":                true,
		"cri-o://1.27.4":                false,
		"docker://27.3.1":               false,
		"containerd://":                 false,
		"containerd://Unknown":          false,
		"":                              false,
		"containerd 2.1.4, or the like": false,
	} {
		if got := InjectedBy(runtime); got != want {
			t.Errorf("%q: %t, want %t", runtime, got, want)
		}
	}
}
