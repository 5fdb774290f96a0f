// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package template has the manifests that people begin with. "kubectl gputask new" prints them, and docs/guides
// shows them.
package template

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/spelling"
)

const extension = ".yaml"

//go:embed *.yaml
var files embed.FS

// Names returns the names of all templates, sorted.
func Names() []string {
	names, _ := fs.Glob(files, "*"+extension) // the pattern is valid
	for i := range names {
		names[i] = strings.TrimSuffix(names[i], extension)
	}
	return names
}

// Manifest returns the YAML of a template.
func Manifest(name string) ([]byte, error) {
	manifest, err := files.ReadFile(name + extension)
	if err != nil {
		names := Names()
		return nil, fmt.Errorf("there is no template %q; there are %s%s", name, plural.List(names), spelling.DidYouMean(spelling.Nearest(name, names)))
	}
	return manifest, nil
}

// Summary returns what a template is for: the comment in its first line.
func Summary(name string) string {
	manifest, _ := files.ReadFile(name + extension) // of an unknown template there is nothing to say
	first, _, _ := strings.Cut(string(manifest), "\n")
	return strings.TrimPrefix(first, "# ")
}
