// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mutant

import (
	"path/filepath"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/test/chaos/check"
)

// fewest is how many mutants there must be.
const fewest = 10

// TestAllMutantsApply: a patch that no longer applies, or names no invariant, tests nothing.
func TestAllMutantsApply(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	mutants, err := All(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) < fewest {
		t.Errorf("there are %d mutants, want at least %d", len(mutants), fewest)
	}
	for _, one := range mutants {
		t.Run(one.Name, func(t *testing.T) {
			t.Parallel()
			if _, err := one.Apply(t.Context(), root, t.TempDir()); err != nil {
				t.Error(err)
			}
			if !slices.Contains(check.Invariants(), one.Breaks) {
				t.Errorf("it breaks %q, which is none of the invariants", one.Breaks)
			}
			for _, program := range one.Programs {
				if !slices.Contains(campaignPrograms(), program) {
					t.Errorf("a campaign runs no program %q", program)
				}
			}
		})
	}
}

func TestAPatchMustSayWhatItIs(t *testing.T) {
	t.Parallel()
	if _, err := parse("x", []byte("--- a/f\n+++ b/f\n")); err == nil {
		t.Error("a patch without a description is accepted")
	}
}
