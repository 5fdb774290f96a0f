// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import "testing"

func TestATableHasItsNumbersToTheRight(t *testing.T) {
	t.Parallel()
	table := Table{Header: []string{"what", "a", "b"}}
	if !table.Empty() {
		t.Error("a new table has rows")
	}
	table.Add("x", Hundredths(1), Signed(0.5))
	want := "| what | a | b |\n|---|---:|---:|\n| x | 1.00 | +0.50 |\n"
	if got := table.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
