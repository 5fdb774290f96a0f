// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpumodel

import (
	"slices"
	"testing"
)

func TestTheNearestModelIsOneThatTheUserMayHaveMeant(t *testing.T) {
	t.Parallel()
	known := []string{"rtx4090", "a100-40gb", "a100-80gb", "h100-80gb-hbm3", "h100-pcie", "rtx-a6000"}
	for _, test := range []struct{ name, want string }{
		{"H100-80GB-HBM3", "h100-80gb-hbm3"},
		{"NVIDIA H100 PCIe", "h100-pcie"},
		{"h100", "h100-pcie"}, // the fewest differing characters
		{"h100-80", "h100-80gb-hbm3"},
		{"a100", "a100-40gb"}, // the first in the alphabet
		{"rtx40", "rtx4090"},
		{"rtx-4090", "rtx4090"},
		{"4090", "rtx4090"},
		{"hbm3", "h100-80gb-hbm3"},
		{"a6000", "rtx-a6000"},
		{"h100-sxm5-80gb", "h100-80gb-hbm3"},
		{"a100-80gb-pcie", "a100-80gb"},
		{"rtx4O90", "rtx4090"},
		{"rxt4090x", ""},
		{"h100-80gb-hmb3", "h100-80gb-hbm3"},
		{"h1OO-80gb-hbm3", "h100-80gb-hbm3"},
		{"hopper", ""}, // an architecture, which no name tells
		{"b200", ""},
		{"t4", ""},
		{"gb", ""},
		{"", ""},
		{"*", ""},
		{"NVIDIA", ""},
	} {
		for range 2 { // whatever the order of the known ones
			if got := Nearest(test.name, known); got != test.want {
				t.Errorf("nearest to %q is %q, want %q", test.name, got, test.want)
			}
			slices.Reverse(known)
		}
	}
	if got := Nearest("h100", []string{"rtx4090", "h100-80gb-hbm3"}); got != "h100-80gb-hbm3" {
		t.Errorf("nearest to h100 is %q", got)
	}
	if got := Nearest("h100", nil); got != "" {
		t.Errorf("nearest to h100 is %q, where there is no model", got)
	}
}

func TestModelsThatNoNodeHasAreNamed(t *testing.T) {
	t.Parallel()
	known := []string{"rtx4090", "a100-40gb", "h100-80gb-hbm3"}
	for _, test := range []struct {
		wanted, known []string
		want          string
	}{
		{[]string{"h100"}, known, "no node has h100 (did you mean h100-80gb-hbm3?); models here: a100-40gb, h100-80gb-hbm3, rtx4090"},
		{[]string{"b200", "b300"}, known, "no node has b200 or b300; models here: a100-40gb, h100-80gb-hbm3, rtx4090"},
		{[]string{"b200", "rtx4090"}, known, ""},
		{[]string{"h100"}, nil, ""},
		{nil, known, ""},
	} {
		if got := Absent(test.wanted, test.known); got != test.want {
			t.Errorf("of %v, %v: %q, want %q", test.known, test.wanted, got, test.want)
		}
	}
}
