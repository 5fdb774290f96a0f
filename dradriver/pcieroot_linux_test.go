// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestAddressesOnTheBusAsSysfsHasThem(t *testing.T) {
	t.Parallel()
	for nvml, want := range map[string]string{
		"00000000:1B:00.0": "0000:1b:00.0",
		"0000:1B:00.0":     "0000:1b:00.0",
		"00010000:1B:00.0": "00010000:1b:00.0", // sysfs has more digits only if it needs them
		"":                 ":",
	} {
		if got := busAddress(nvml); got != want {
			t.Errorf("%q is %q, want %q", nvml, got, want)
		}
	}
}
