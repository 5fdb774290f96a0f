// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"slices"
	"testing"
)

func TestAmountsComeBeforeOtherTexts(t *testing.T) {
	t.Parallel()
	// By their letters alone, 1x would be before 2, and after 1E, which is more than 2.
	texts := []any{"1x", "2", nil, "1E", "500m", 7.0, ""}
	slices.SortFunc(texts, compareValues)
	if want := []any{nil, 7.0, "500m", "2", "1E", "", "1x"}; !slices.Equal(texts, want) {
		t.Errorf("the order is %v, want %v", texts, want)
	}
}
