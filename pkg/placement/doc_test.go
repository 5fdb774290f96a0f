// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fileNames are the names of files in the map, as patterns of path/filepath.
var fileNames = regexp.MustCompile(`[a-z_]+\*?\.go`)

func TestTheMapInThePackageCommentNamesEveryFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, theMap, found := strings.Cut(string(text), "# A map of the files")
	if !found {
		t.Fatal("there is no map")
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]int{"doc.go": 1}
	for _, pattern := range fileNames.FindAllString(theMap, -1) {
		matches, err := filepath.Glob(pattern)
		if err != nil || len(matches) == 0 {
			t.Errorf("the map names %s, which does not exist (%v)", pattern, err)
		}
		for _, file := range matches {
			named[file]++
		}
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") && named[file] != 1 {
			t.Errorf("the map names %s %d times, want once", file, named[file])
		}
	}
}
