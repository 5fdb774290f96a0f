// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns the texts in the root, in docs and in docs/guides, by path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/guides/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[strings.TrimPrefix(path, root+"/")] = string(text)
		}
	}
	return texts
}

// goFiles returns the paths of all Go files, from the root.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestTheGoFilesThatDocumentsNameExist(t *testing.T) {
	t.Parallel()
	files := goFiles(t)
	for page, text := range pages(t) {
		for _, match := range regexp.MustCompile("`([A-Za-z0-9_./-]+\\.go)`").FindAllStringSubmatch(text, -1) {
			named := match[1]
			if !slices.ContainsFunc(files, func(file string) bool { return file == named || strings.HasSuffix(file, "/"+named) }) {
				t.Errorf("%s names %s, which does not exist", page, named)
			}
		}
	}
}

func TestTheTestsThatDocumentsNameExist(t *testing.T) {
	t.Parallel()
	exist := map[string]bool{}
	for _, file := range goFiles(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`).FindAllSubmatch(text, -1) {
			exist[string(match[1])] = true
		}
	}
	for page, text := range pages(t) {
		for _, match := range regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`").FindAllStringSubmatch(text, -1) {
			if !exist[match[1]] {
				t.Errorf("%s names %s, which does not exist", page, match[1])
			}
		}
	}
}

// anchorOf returns the anchor that GitHub gives a heading.
func anchorOf(heading string) string {
	kept := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
			return r
		}
		return -1
	}, strings.ToLower(heading))
	return kept
}

func TestLinksBetweenDocumentsLeadToHeadings(t *testing.T) {
	t.Parallel()
	texts := pages(t)
	anchors := map[string][]string{}
	for page, text := range texts {
		for _, match := range regexp.MustCompile(`(?m)^#+ +(.+?) *$`).FindAllStringSubmatch(text, -1) {
			anchors[page] = append(anchors[page], anchorOf(match[1]))
		}
	}
	for page, text := range texts {
		for _, match := range regexp.MustCompile(`\]\(([a-z0-9./-]*\.md)?#([^)]+)\)`).FindAllStringSubmatch(text, -1) {
			target := page
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(page), match[1])
			}
			if _, known := texts[target]; known && !slices.Contains(anchors[target], match[2]) {
				t.Errorf("%s links to %s#%s, but there is no such heading", page, target, match[2])
			}
		}
	}
}

func TestRelativeLinksLeadToFiles(t *testing.T) {
	t.Parallel()
	for page, text := range pages(t) {
		for _, match := range regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), match[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, match[1], err)
			}
		}
	}
}

// TestGuidesAreShortAndListed: a guide is a page, and the list of guides has all of them.
func TestGuidesAreShortAndListed(t *testing.T) {
	t.Parallel()
	const mostLines, folder = 60, "docs/guides/"
	texts := pages(t)
	for page, text := range texts {
		name, guide := strings.CutPrefix(page, folder)
		if !guide || name == "README.md" {
			continue
		}
		if lines := strings.Count(text, "\n"); lines > mostLines {
			t.Errorf("%s has %d lines, more than %d", page, lines, mostLines)
		}
		if !strings.Contains(texts[folder+"README.md"], "("+name+")") {
			t.Errorf("%sREADME.md does not list %s", folder, name)
		}
	}
}
