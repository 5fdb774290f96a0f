// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart packs a Helm chart into an archive, as "helm package" does, but such that the same
// files and the same release give the same bytes.
package chart

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/hack/release/archive"
)

const ignoreFile = ".helmignore"

// Release is what the archive says of its release.
type Release struct {
	// Version is the tag of the images, and that of the chart as semantic versioning has it.
	Version string
	// Digests are those of the images by their names.
	Digests map[string]string
	// Registry is where the images are, without a slash at the end.
	Registry string
	// Modified is the time of all files.
	Modified time.Time
}

// Pack returns the archive of the chart in a folder, and its name. What symbolic links in the folder
// lead to is in the archive itself.
func Pack(folder string, release *Release) (name string, content []byte, err error) {
	ignored, err := ignoredNames(filepath.Join(folder, ignoreFile))
	if err != nil {
		return "", nil, err
	}
	chart := filepath.Base(folder)
	files, err := collect(folder, chart, ignored)
	if err != nil {
		return "", nil, err
	}
	for i := range files {
		if files[i].Data, err = release.replaceIn(path.Base(files[i].Path), files[i].Data); err != nil {
			return "", nil, err
		}
	}
	var packed bytes.Buffer
	if err := archive.WriteCompressed(&packed, release.Modified, files); err != nil {
		return "", nil, err
	}
	return chart + "-" + semantic(release.Version) + ".tgz", packed.Bytes(), nil
}

// ignoredNames returns the names in .helmignore, which has no patterns.
func ignoredNames(path string) (map[string]bool, error) {
	text, err := os.ReadFile(path) //nolint:gosec // a file of the chart
	if err != nil {
		return nil, err
	}
	names := map[string]bool{ignoreFile: true}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			names[line] = true
		}
	}
	return names, nil
}

// collect returns the files below a folder, and what symbolic links lead to.
func collect(folder, name string, ignored map[string]bool) ([]archive.File, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []archive.File
	for _, entry := range entries {
		if ignored[entry.Name()] {
			continue
		}
		from, to := filepath.Join(folder, entry.Name()), path.Join(name, entry.Name())
		info, err := os.Stat(from) // follows links
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			below, err := collect(from, to, ignored)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
			continue
		}
		content, err := os.ReadFile(from) //nolint:gosec // a file of the chart
		if err != nil {
			return nil, err
		}
		files = append(files, archive.File{Path: to, Mode: 0o644, Data: content})
	}
	return files, nil
}

// replaceIn returns a file of the chart with what the release is. Others stay as they are.
func (r *Release) replaceIn(name string, content []byte) ([]byte, error) {
	lines := map[string]map[string]string{
		"Chart.yaml": {
			"\nversion: 0.0.0\n":     "\nversion: " + semantic(r.Version) + "\n",
			"\nappVersion: latest\n": fmt.Sprintf("\nappVersion: %q\n", r.Version),
		},
		"values.yaml": {
			"\n  registry: localhost\n": fmt.Sprintf("\n  registry: %q\n", r.Registry),
			"\n  digests: {}\n":         "\n  digests:" + r.digests() + "\n",
		},
	}
	for line, replacement := range lines[name] {
		if bytes.Count(content, []byte(line)) != 1 {
			return nil, fmt.Errorf("%s must have the line %q once", name, strings.Trim(line, "\n"))
		}
		content = bytes.Replace(content, []byte(line), []byte(replacement), 1)
	}
	return content, nil
}

// digests returns the digests as a YAML map.
func (r *Release) digests() string {
	if len(r.Digests) == 0 {
		return " {}"
	}
	var lines strings.Builder
	for _, image := range slices.Sorted(maps.Keys(r.Digests)) {
		fmt.Fprintf(&lines, "\n    %s: %s", image, r.Digests[image])
	}
	return lines.String()
}

// semanticVersion is that of https://semver.org without metadata of the build.
var semanticVersion = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?$`)

// semantic returns a version as charts must have it: v1.2.3 as 1.2.3, and the abbreviated commit of
// a repository without tags behind 0.0.0-g.
func semantic(version string) string {
	if plain := strings.TrimPrefix(version, "v"); semanticVersion.MatchString(plain) {
		return plain
	}
	return "0.0.0-g" + regexp.MustCompile(`[^0-9a-zA-Z-]`).ReplaceAllString(version, "-")
}
