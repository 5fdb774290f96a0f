// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// mostColumns is how wide lines of comments are at most; tabs have four columns.
const mostColumns = 120

func TestCommentsAreNotWide(t *testing.T) {
	t.Parallel()
	for _, file := range goFiles(t) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\n// Code generated ") || strings.HasPrefix(string(text), "// Code generated ") || strings.HasPrefix(file, "pkg/generated/") {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			comment := strings.TrimLeft(line, "\t")
			columns := utf8.RuneCountInString(comment) + 4*(len(line)-len(comment))
			directive := strings.HasPrefix(comment, "//go:") || strings.HasPrefix(comment, "//nolint") || strings.HasPrefix(comment, "// +")
			if strings.HasPrefix(comment, "//") && !directive && columns > mostColumns {
				t.Errorf("%s:%d has a comment of %d columns, more than %d", file, i+1, columns, mostColumns)
			}
		}
	}
}
