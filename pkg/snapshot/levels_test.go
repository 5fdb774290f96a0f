// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLevelsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Levels{
		"none":         nil,
		"the defaults": DefaultLevels(),
		"one":          {{Name: "leaf", NodeLabel: "example.com/leaf"}},
	} {
		got, err := ParseLevels(want.String())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestLevelsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"a name without a label":    {"leaf", `"leaf": must be a level's name and a label of nodes, as in leaf=falldio.com/leaf`},
		"a label without a name":    {"zone=a,=b", `"=b": must be`},
		"a level twice":             {"leaf=a,leaf=b", "level leaf is listed twice"},
		"a label that can't be one": {"leaf=a b", `label "a b"`},
	} {
		if got, err := ParseLevels(test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: levels %v, error %v, want %q in it", name, got, err, test.want)
		}
	}
}
