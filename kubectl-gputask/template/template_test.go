// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package template_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/kubectl-gputask/template"
)

// guides returns the texts in docs/guides, by name.
func guides(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/guides/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found no guides: %v", err)
	}
	texts := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(path)] = string(text)
	}
	return texts
}

func TestEveryTemplateHasAGuide(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, text := range guides(t) {
		all.WriteString(text)
	}
	for _, name := range template.Names() {
		if !strings.Contains(all.String(), "kubectl gputask new "+name+" ") {
			t.Errorf("no guide says how to print the template %s", name)
		}
	}
}

// TestGuidesShowTheTemplatesAsTheyAre: a block that begins with the summary of a template is that template.
func TestGuidesShowTheTemplatesAsTheyAre(t *testing.T) {
	t.Parallel()
	shown := 0
	for guide, text := range guides(t) {
		for _, block := range regexp.MustCompile("(?ms)^```yaml\n(# .*?)^```$").FindAllStringSubmatch(text, -1) {
			summary, _, _ := strings.Cut(strings.TrimPrefix(block[1], "# "), "\n")
			index := slices.IndexFunc(template.Names(), func(name string) bool { return template.Summary(name) == summary })
			if index < 0 {
				t.Errorf("%s shows %q, which is no template", guide, summary)
				continue
			}
			shown++
			if manifest, err := template.Manifest(template.Names()[index]); err != nil || block[1] != string(manifest) {
				t.Errorf("%s does not show the template %s as it is: %v", guide, template.Names()[index], err)
			}
		}
	}
	if shown < 4 {
		t.Errorf("the guides show %d templates: is their form another one?", shown)
	}
}
