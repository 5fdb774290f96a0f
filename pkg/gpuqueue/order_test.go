// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhoHasNoPublishedPlaceGetsOneThatIsLeft(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ published, want []int }{
		"nothing is published":         {[]int{0, 0, 0}, []int{1, 2, 3}},
		"all is":                       {[]int{2, 3, 1}, []int{2, 3, 1}},
		"some is":                      {[]int{0, 1, 0, 3}, []int{2, 1, 4, 3}},
		"others are there no more":     {[]int{7, 0, 9}, []int{7, 1, 9}},
		"one place is published twice": {[]int{1, 1, 0}, []int{1, 1, 2}},
	} {
		if diff := cmp.Diff(test.want, Places(test.published)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
