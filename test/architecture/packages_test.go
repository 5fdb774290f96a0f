// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package architecture tests that docs/architecture.md lists exactly the packages that exist.
package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// packages returns the folders with Go files, except for generated ones and the root
// itself.
func packages(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if hidden := strings.HasPrefix(entry.Name(), ".") && name != "."; hidden || entry.Name() == "testdata" || slices.Contains([]string{"bin", "pkg/generated"}, name) {
				return filepath.SkipDir
			}
			return nil
		}
		if folder := filepath.Dir(name); strings.HasSuffix(name, ".go") && folder != "." && !slices.Contains(list, folder) {
			list = append(list, folder)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

func TestTheArchitectureNamesEveryPackage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z0-9/-]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		named = append(named, match[1])
	}
	slices.Sort(named)
	if diff := cmp.Diff(packages(t), named); diff != "" {
		t.Errorf("packages (-tree +docs/architecture.md):\n%s", diff)
	}
}
