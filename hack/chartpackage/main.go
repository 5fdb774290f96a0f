// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chartpackage packs the Helm chart into an archive, as "helm package" does, but such that
// the same files and version give the same bytes. It is run in the root of the repository.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	chartName   = "gpu-controller"
	chartFolder = "charts/" + chartName
	ignoreFile  = ".helmignore"
)

func main() {
	version := flag.String("version", "", "version of the images, such as \"git describe --tags --always\" prints it")
	output := flag.String("output", ".", "folder for the archive")
	flag.Parse()
	if flag.NArg() > 0 || *version == "" {
		fmt.Fprintln(os.Stderr, "usage: chartpackage --version=VERSION [--output=FOLDER]")
		os.Exit(2)
	}
	path, err := pack(*version, *output)
	if err != nil {
		fmt.Fprintf(os.Stderr, "chartpackage: %v\n", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

// pack writes the archive and returns its path.
func pack(version, output string) (string, error) {
	ignored, err := ignoredNames(filepath.Join(chartFolder, ignoreFile))
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	compressor := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressor)
	if err := add(archive, chartFolder, chartName, version, ignored); err != nil {
		return "", err
	}
	if err := archive.Close(); err != nil {
		return "", err
	}
	if err := compressor.Close(); err != nil {
		return "", err
	}
	path := filepath.Join(output, chartName+"-"+semantic(version)+".tgz")
	return path, os.WriteFile(path, packed.Bytes(), 0o644) //nolint:gosec // everybody may read it
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

// add adds the files of a folder in alphabetical order, and what symbolic links lead to.
func add(archive *tar.Writer, folder, name, version string, ignored map[string]bool) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		from, to := filepath.Join(folder, entry.Name()), path.Join(name, entry.Name())
		if ignored[entry.Name()] {
			continue
		}
		info, err := os.Stat(from) // follows links
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = add(archive, from, to, version, ignored)
		} else {
			err = addFile(archive, from, to, version)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func addFile(archive *tar.Writer, from, to, version string) error {
	text, err := os.ReadFile(from) //nolint:gosec // a file of the chart
	if err != nil {
		return err
	}
	if to == path.Join(chartName, "Chart.yaml") {
		if text, err = withVersion(text, version); err != nil {
			return err
		}
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: to, Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, bytes.NewReader(text))
	return err
}

// withVersion writes the version into Chart.yaml: as that of the chart, and as the tag of the images.
func withVersion(text []byte, version string) ([]byte, error) {
	for line, replacement := range map[string]string{
		"\nversion: 0.0.0\n":     "\nversion: " + semantic(version) + "\n",
		"\nappVersion: latest\n": fmt.Sprintf("\nappVersion: %q\n", version),
	} {
		if !bytes.Contains(text, []byte(line)) {
			return nil, fmt.Errorf("Chart.yaml lacks the line %q", strings.TrimSpace(line))
		}
		text = bytes.Replace(text, []byte(line), []byte(replacement), 1)
	}
	return text, nil
}

// semanticVersion is https://semver.org's, simplified: it allows numbers with leading zeros in what
// follows the hyphen only if letters are among them.
var semanticVersion = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?$`)

// semantic returns a version as charts must have it: v1.2.3 as 1.2.3, and the abbreviated commit of
// a repository without tags behind 0.0.0-g.
func semantic(version string) string {
	if plain := strings.TrimPrefix(version, "v"); semanticVersion.MatchString(plain) {
		return plain
	}
	return "0.0.0-g" + regexp.MustCompile(`[^0-9a-zA-Z-]`).ReplaceAllString(version, "-")
}
