// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	containers "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// ReadArchive returns the index in an archive that WriteArchive has written, and its name with
// registry and tag. It unpacks the archive into a folder, where the index is read from.
func ReadArchive(archive, folder string) (containers.ImageIndex, string, error) {
	if err := unpack(archive, folder); err != nil {
		return nil, "", err
	}
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, "", err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, "", err
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations[containerdName] == "" {
		return nil, "", errors.New("it is no archive of a release: it should have one index with a name")
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	return index, manifest.Manifests[0].Annotations[containerdName], err
}

func unpack(archive, folder string) error {
	file, err := os.Open(archive) //nolint:gosec // a release that the user has named
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is left to be written
	reader := tar.NewReader(file)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(root, header, reader); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	const private = 0o700
	if header.Typeflag == tar.TypeDir {
		return root.MkdirAll(filepath.Clean(header.Name), private)
	}
	file, err := root.Create(filepath.Clean(header.Name))
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
