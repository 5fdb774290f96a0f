// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"falldio.github.io/gpu-controller/hack/release/provenance"
)

// writeProvenance writes from what the files of the release were built.
func (r *release) writeProvenance() error {
	outputs, err := r.artifacts()
	if err != nil {
		return err
	}
	inputs := []provenance.Artifact{{URI: "git+" + r.source + "@" + r.revision, Digest: map[string]string{"gitCommit": r.revision}}}
	for i := range r.lock.Packages {
		for _, architecture := range r.architectures {
			archive := r.lock.Packages[i].Archives[architecture]
			inputs = append(inputs, provenance.Artifact{URI: r.lock.Mirrors[0] + "/" + archive.Path, Digest: map[string]string{"sha256": archive.SHA256}})
		}
	}
	content, err := provenance.Statement(&provenance.Build{
		Parameters: map[string]string{"version": r.version, "registry": r.registry, "architectures": strings.Join(r.architectures, ",")},
		Inputs:     inputs, GoVersion: runtime.Version(), Outputs: outputs,
	})
	if err != nil {
		return err
	}
	return r.write("provenance.json", content)
}

// writeChecksums writes the digests of all other files, as sha256sum checks them.
func (r *release) writeChecksums() error {
	files, err := r.artifacts()
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, file := range files {
		fmt.Fprintf(&lines, "%s  %s\n", file.Digest["sha256"], file.Name)
	}
	return r.write(marker, []byte(lines.String()))
}

// artifacts returns the files of the release with their digests, ordered by their names.
func (r *release) artifacts() ([]provenance.Artifact, error) {
	var files []provenance.Artifact
	err := filepath.WalkDir(r.out, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		if err != nil {
			return err
		}
		digest, err := digestOf(path)
		files = append(files, provenance.Artifact{Name: filepath.ToSlash(name), Digest: map[string]string{"sha256": digest}})
		return err
	})
	return files, err
}

func digestOf(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // below the folder of the release
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", digest.Sum(nil)), nil
}
