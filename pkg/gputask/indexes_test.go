// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import "testing"

func TestIndexSetReadsWhatItWrites(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "0", "0,1", "0-2", "0,2-4", "1,3,5-9,4095"} {
		set, err := parseIndexes(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got := set.String(); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestIndexSetRefusesOtherText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a", "1,", "-1", "1-", "1-b", "99999999999999999999", "1-99999999"} {
		if set, err := parseIndexes(text); err == nil {
			t.Errorf("%q was read as %v", text, set)
		}
	}
}

func FuzzIndexSet(f *testing.F) {
	f.Add("0,2-4")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := parseIndexes(text)
		if err != nil {
			return
		}
		again, err := parseIndexes(set.String())
		if err != nil || again.String() != set.String() {
			t.Errorf("%q: %v, %v", text, again, err)
		}
	})
}
