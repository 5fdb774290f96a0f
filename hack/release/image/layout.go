// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"io"
	"io/fs"
	"os"
	"time"

	containers "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"falldio.github.io/gpu-controller/hack/release/archive"
)

// Annotations of the index in an archive, by which tools know the name of the image: containerd
// reads the former, skopeo and others the latter, which is only the tag.
const (
	containerdName = "io.containerd.image.name"
	referenceName  = "org.opencontainers.image.ref.name"
)

// WriteArchive writes an OCI archive: a tar of an image layout
// (https://github.com/opencontainers/image-spec/blob/main/image-layout.md) with an index and
// its images. name is the image's name with registry, without tag.
func WriteArchive(out io.Writer, index containers.ImageIndex, name, tag string) error {
	folder, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	written, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	names := map[string]string{containerdName: name + ":" + tag, referenceName: tag}
	if err := written.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	files, err := filesIn(os.DirFS(folder))
	if err != nil {
		return err
	}
	return archive.Write(out, time.Unix(0, 0), files)
}

// filesIn returns the files of a folder.
func filesIn(folder fs.FS) ([]archive.File, error) {
	const readable = 0o644
	var files []archive.File
	err := fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, path)
		files = append(files, archive.File{Path: path, Mode: readable, Data: content})
		return err
	})
	return files, err
}
