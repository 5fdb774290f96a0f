// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"

	containers "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// The media types of a chart in a registry: https://helm.sh/docs/topics/registries
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chart is a Helm chart as "helm push" makes an image of it, but without the time at which it did: the same
// archive has the same digest.
type chart struct {
	config, manifest []byte
	content          containers.Layer
}

// readChart returns the chart in an archive, its name and its version.
func readChart(archive string) (image containers.Image, name, version string, err error) {
	packed, err := os.ReadFile(archive) //nolint:gosec // a release that the user has named
	if err != nil {
		return nil, "", "", err
	}
	c := &chart{content: static.NewLayer(packed, chartContent)}
	if c.config, err = metadata(packed); err != nil {
		return nil, "", "", err
	}
	var named struct{ Name, Version string }
	if err := json.Unmarshal(c.config, &named); err != nil {
		return nil, "", "", err
	}
	config, err := partial.Descriptor(static.NewLayer(c.config, chartConfig))
	if err != nil {
		return nil, "", "", err
	}
	content, err := partial.Descriptor(c.content)
	if err != nil {
		return nil, "", "", err
	}
	c.manifest, err = json.Marshal(containers.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: *config, Layers: []containers.Descriptor{*content},
	})
	if err != nil {
		return nil, "", "", err
	}
	image, err = partial.CompressedToImage(c)
	return image, named.Name, named.Version, err
}

// metadata returns the Chart.yaml of an archive as JSON.
func metadata(packed []byte) ([]byte, error) {
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	for reader := tar.NewReader(plain); ; {
		header, err := reader.Next()
		if err != nil {
			return nil, fmt.Errorf("looking for Chart.yaml: %w", err)
		}
		if path.Base(header.Name) != "Chart.yaml" {
			continue
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		return yaml.YAMLToJSON(text)
	}
}

// MediaType implements partial.CompressedImageCore, as the following methods do.
func (c *chart) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (c *chart) RawConfigFile() ([]byte, error) { return c.config, nil }

func (c *chart) RawManifest() ([]byte, error) { return c.manifest, nil }

func (c *chart) LayerByDigest(containers.Hash) (partial.CompressedLayer, error) {
	return c.content, nil
}
