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
	content, err := provenance.Statement(&provenance.Build{
		Parameters: map[string]string{"version": r.version, "registry": r.registry, "architectures": strings.Join(r.architectures, ",")},
		Inputs:     r.inputs(), GoVersion: runtime.Version(), Outputs: outputs,
	})
	if err != nil {
		return err
	}
	return r.write("provenance.json", content)
}

// inputs returns the tree and the Debian packages. Which mirror delivered a package, or whether an
// earlier release has kept it, does not matter: it has the digest in the lock.
func (r *release) inputs() []provenance.Artifact {
	inputs := []provenance.Artifact{r.tree()}
	for i := range r.lock.Packages {
		p := &r.lock.Packages[i]
		for _, architecture := range r.architectures {
			inputs = append(inputs, provenance.Artifact{
				URI: p.URL(architecture, r.lock.Suite), Digest: map[string]string{"sha256": p.Archives[architecture].SHA256},
			})
		}
	}
	return inputs
}

// dirty is the end of the revision of a tree with changes, as "git describe" writes it.
const dirty = "-dirty"

// tree returns the tree that the programs were built from. One with changes has no digest: it is not
// what the commit has.
func (r *release) tree() provenance.Artifact {
	tree := provenance.Artifact{URI: "git+" + r.source + "@" + r.revision}
	if !strings.HasSuffix(r.revision, dirty) {
		tree.Digest = map[string]string{"gitCommit": r.revision}
	}
	return tree
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
