// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheReadmeNamesValuesThatExist has what "helm show readme" prints.
func TestTheReadmeNamesValuesThatExist(t *testing.T) {
	t.Parallel()
	readme, err := helm(t, "show", "readme", chartFolder())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(chartFolder(), "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(text, &all); err != nil {
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

// exists reports whether a schema has a value at a path of names; of an object with any names, nothing else is known.
func exists(schema map[string]any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	properties, listed := schema["properties"].(map[string]any)
	if !listed {
		return schema["additionalProperties"] != nil
	}
	below, found := properties[path[0]].(map[string]any)
	return found && exists(below, path[1:])
}
