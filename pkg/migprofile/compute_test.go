// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package migprofile

import "testing"

func TestComputeSlicesOfAProfile(t *testing.T) {
	t.Parallel()
	for profile, want := range map[string]int{"1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 3, "4g.40gb": 4, "7g.80gb": 7, "1g.10gb+me": 1, "12g.999gb": 7, "large": 0, "": 0} {
		if got := Compute(profile); got != want {
			t.Errorf("%q has %d compute slices, want %d", profile, got, want)
		}
	}
}
