// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import "testing"

func TestVersionsOfTheChartAreSemantic(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.2.3":                  "1.2.3",
		"v1.2.3-rc.1":             "1.2.3-rc.1",
		"v1.2.3-14-gabcdef0":      "1.2.3-14-gabcdef0",
		"v1.2.3-14-gabcdef-dirty": "1.2.3-14-gabcdef-dirty",
		"abcdef0":                 "0.0.0-gabcdef0",
		"0123456-dirty":           "0.0.0-g0123456-dirty",
		"feature/x":               "0.0.0-gfeature-x",
		"v1.2":                    "0.0.0-gv1-2",
		"v1.2.3-01":               "0.0.0-gv1-2-3-01",
	} {
		if got := semantic(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
