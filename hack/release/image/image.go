// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image builds OCI images from files, without a container engine. The same
// files give the same digest.
package image

import (
	"bytes"
	"fmt"
	"io"
	"time"

	containers "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"falldio.github.io/gpu-controller/hack/release/archive"
)

// Spec describes the image of a process for one architecture.
type Spec struct {
	// Name is the name of the image without registry and tag, and Description a sentence
	// about it.
	Name, Description string
	// Version is that of the project, and Revision the commit.
	Version, Revision string
	// Architecture is as Go names it.
	Architecture string
	// Created is the time of the image and of all its files.
	Created time.Time
	// User is "UID:GID".
	User string
	// Entrypoint is the path of the program.
	Entrypoint string
	// Layers are the files of each layer, the lowest layer first.
	Layers [][]archive.File
}

// Build builds an image.
func Build(spec *Spec) (containers.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := containers.Time{Time: spec.Created}
	for _, files := range spec.Layers {
		layer, err := layerOf(files, spec.Created)
		if err != nil {
			return nil, fmt.Errorf("image %s for %s: %w", spec.Name, spec.Architecture, err)
		}
		base, err = mutate.Append(base, mutate.Addendum{Layer: layer, History: containers.History{Created: created, CreatedBy: "hack/release"}})
		if err != nil {
			return nil, err
		}
	}
	config, err := base.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", spec.Architecture, created
	config.Config = containers.Config{
		User: spec.User, Entrypoint: []string{spec.Entrypoint}, WorkingDir: "/", Labels: spec.labels(),
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}
	return mutate.ConfigFile(base, config)
}

// labels returns the annotations of
// https://github.com/opencontainers/image-spec/blob/main/annotations.md as labels, by which
// registries and scanners know an image.
func (s *Spec) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       s.Name,
		"org.opencontainers.image.description": s.Description,
		"org.opencontainers.image.version":     s.Version,
		"org.opencontainers.image.revision":    s.Revision,
		"org.opencontainers.image.created":     s.Created.UTC().Format(time.RFC3339),
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}

func layerOf(files []archive.File, modified time.Time) (containers.Layer, error) {
	var content bytes.Buffer
	if err := archive.Write(&content, modified, files); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// Index returns an image index, from which each node takes the image for its architecture.
func Index(images []containers.Image) (containers.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: containers.Descriptor{Platform: &containers.Platform{OS: config.OS, Architecture: config.Architecture}},
		})
	}
	return index, nil
}
