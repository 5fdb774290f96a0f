// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"encoding/json"
	"io"
	"time"

	containers "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

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
	blobs := map[containers.Hash][]byte{}
	if err := addIndex(blobs, index); err != nil {
		return err
	}
	descriptor, err := partial.Descriptor(index)
	if err != nil {
		return err
	}
	descriptor.Annotations = map[string]string{containerdName: name + ":" + tag, referenceName: tag}
	top, err := json.Marshal(containers.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []containers.Descriptor{*descriptor},
	})
	if err != nil {
		return err
	}
	const readable = 0o644
	files := []archive.File{
		{Path: "oci-layout", Mode: readable, Data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{Path: "index.json", Mode: readable, Data: top},
	}
	for hash, content := range blobs {
		files = append(files, archive.File{Path: "blobs/" + hash.Algorithm + "/" + hash.Hex, Mode: readable, Data: content})
	}
	return archive.Write(out, time.Unix(0, 0), files)
}

// addIndex adds an index and everything that it refers to.
func addIndex(blobs map[containers.Hash][]byte, index containers.ImageIndex) error {
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if blobs[digest], err = index.RawManifest(); err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for i := range manifest.Manifests {
		image, err := index.Image(manifest.Manifests[i].Digest)
		if err != nil {
			return err
		}
		if err := addImage(blobs, image); err != nil {
			return err
		}
	}
	return nil
}

func addImage(blobs map[containers.Hash][]byte, image containers.Image) error {
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	if blobs[digest], err = image.RawManifest(); err != nil {
		return err
	}
	config, err := image.ConfigName()
	if err != nil {
		return err
	}
	if blobs[config], err = image.RawConfigFile(); err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		if err := addLayer(blobs, layer); err != nil {
			return err
		}
	}
	return nil
}

func addLayer(blobs map[containers.Hash][]byte, layer containers.Layer) error {
	digest, err := layer.Digest()
	if err != nil {
		return err
	}
	reader, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer reader.Close() //nolint:errcheck // only read
	blobs[digest], err = io.ReadAll(reader)
	return err
}
