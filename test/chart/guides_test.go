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

	"falldio.github.io/gpu-controller/test/programs"
)

// TestTheChartAcceptsTheValuesInGuides renders the chart with each block of YAML in the guides that is no object.
func TestTheChartAcceptsTheValuesInGuides(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(programs.Root(), "docs", "guides", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(block[1], "apiVersion:") {
				continue
			}
			count++
			chosen := values{}
			if err := yaml.UnmarshalStrict([]byte(block[1]), &chosen); err != nil {
				t.Errorf("%s: %v in\n%s", filepath.Base(path), err, block[1])
			} else if _, err := render(t, namespace, chosen); err != nil {
				t.Errorf("%s: %v with\n%s", filepath.Base(path), err, block[1])
			}
		}
	}
	if count < 5 {
		t.Errorf("found only %d blocks of values in the guides: is their form another one?", count)
	}
}
