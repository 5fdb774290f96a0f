// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// TestEachFuzzTargetIsDocumented: docs/development.md says of each target what may never happen.
func TestEachFuzzTargetIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "development.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, folder := range packages(t) {
		files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range fuzzTarget.FindAllStringSubmatch(string(content), -1) {
				found++
				if !documents(string(text), folder, match[1]) {
					t.Errorf("docs/development.md: the table of fuzz targets lacks `%s` of `%s`", match[1], folder)
				}
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d targets are found", found)
	}
}

// documents reports whether a line of a text names a package and a target.
func documents(text, folder, target string) bool {
	for line := range strings.Lines(text) {
		if strings.Contains(line, "`"+folder+"`") && strings.Contains(line, "`"+target+"`") {
			return true
		}
	}
	return false
}
