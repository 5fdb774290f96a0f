// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestWhatDoesNotCompileForAPlatformIsFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ platform, pattern, want string }{
		"a field that only Linux has, on Linux": {"linux/arm64", "./testdata/linuxonly", ""},
		"the same on macOS":                     {"darwin/arm64", "./testdata/linuxonly", "unknown field Pdeathsig in struct literal"},
		"a package that does not exist":         {"darwin/arm64", "./testdata/none", "testdata/none"},
		"a platform that does not exist":        {"plan10/arm64", "./testdata/linuxonly", "plan10/arm64"},
	} {
		err := check(test.platform, []string{test.pattern})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
