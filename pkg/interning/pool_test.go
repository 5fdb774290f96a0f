// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package interning

import "testing"

func TestValuesWithEqualKeysAreTheSame(t *testing.T) {
	t.Parallel()
	p := NewPool[string, *int](2)
	first, second, other := new(int), new(int), new(int)
	if p.Intern("a", first) != first || p.Intern("a", second) != first || p.Intern("b", other) != other {
		t.Error("a value is not the first with its key")
	}
}

func TestAPoolIsBounded(t *testing.T) {
	t.Parallel()
	p := NewPool[int, *int](100)
	for i := range 250 {
		value := new(int)
		if p.Intern(i, value) != value || p.Intern(i, new(int)) != value {
			t.Fatalf("value %d is not kept", i)
		}
		if len(p.values) > 100 {
			t.Fatalf("%d values are kept", len(p.values))
		}
	}
}
