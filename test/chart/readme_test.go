// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestTheReadmeNamesValuesThatExist has what "helm show readme" prints.
func TestTheReadmeNamesValuesThatExist(t *testing.T) {
	t.Parallel()
	readme, err := helm(t, "show", "readme", chartFolder())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(chartFolder(), "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(readme, -1)
	for _, row := range rows {
		for _, name := range regexp.MustCompile("`([a-zA-Z.-]+)`").FindAllStringSubmatch(row[1], -1) {
			if !exists(all, strings.Split(name[1], ".")) {
				t.Errorf("the README names %s, which is no value", name[1])
			}
		}
	}
	const fewest = 12
	if len(rows) < fewest {
		t.Errorf("the README has %d rows of values", len(rows))
	}
}

// exists reports whether there is a value at a path of names; what is below an empty map is not known.
func exists(all map[string]any, path []string) bool {
	value, found := all[path[0]]
	below, isMap := value.(map[string]any)
	switch {
	case !found || len(path) == 1:
		return found
	case !isMap:
		return false
	default:
		return len(below) == 0 || exists(below, path[1:])
	}
}
