// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	containers "github.com/google/go-containerregistry/pkg/v1"

	"falldio.github.io/gpu-controller/hack/release/archive"
)

// TestAnArchiveHasAnImageForEachArchitecture follows the archive from its index to the files of
// the images, as a container engine does.
func TestAnArchiveHasAnImageForEachArchitecture(t *testing.T) {
	t.Parallel()
	content := archiveOf(t, "program of amd64", "program of arm64")
	files := filesOf(t, content)
	var top containers.IndexManifest
	decode(t, files["index.json"], &top)
	if len(top.Manifests) != 1 {
		t.Fatalf("the archive has %d images, want one index", len(top.Manifests))
	}
	if diff := cmp.Diff(map[string]string{
		"io.containerd.image.name": "registry.example.com/x:v1", "org.opencontainers.image.ref.name": "v1",
	}, top.Manifests[0].Annotations); diff != "" {
		t.Errorf("the annotations (-want +got):\n%s", diff)
	}
	var index containers.IndexManifest
	decode(t, blob(files, top.Manifests[0].Digest), &index)
	got := map[string]string{}
	for _, descriptor := range index.Manifests {
		var manifest containers.Manifest
		decode(t, blob(files, descriptor.Digest), &manifest)
		var config containers.ConfigFile
		decode(t, blob(files, manifest.Config.Digest), &config)
		if config.Architecture != descriptor.Platform.Architecture || config.OS != "linux" || config.Config.User != "65532:65532" {
			t.Errorf("the configuration of the image for %v: %+v", descriptor.Platform, config)
		}
		if config.Config.Labels["org.opencontainers.image.version"] != "v1" {
			t.Errorf("the labels: %v", config.Config.Labels)
		}
		if len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 || len(config.History) != 1 {
			t.Errorf("want one layer: %+v", manifest.Layers)
		}
		got[config.Architecture] = blob(files, manifest.Layers[0].Digest)[:2]
	}
	const gzipped = "\x1f\x8b"
	if diff := cmp.Diff(map[string]string{"amd64": gzipped, "arm64": gzipped}, got); diff != "" {
		t.Errorf("the beginnings of the layers (-want +got):\n%s", diff)
	}
}

func TestTheDigestDependsOnTheFilesOnly(t *testing.T) {
	t.Parallel()
	one := archiveOf(t, "a", "b")
	if !bytes.Equal(one, archiveOf(t, "a", "b")) {
		t.Error("the same files give another archive")
	}
	if bytes.Equal(one, archiveOf(t, "a", "c")) {
		t.Error("other files give the same archive")
	}
}

func archiveOf(t *testing.T, amd64, arm64 string) []byte {
	t.Helper()
	var images []containers.Image
	for _, built := range []struct{ architecture, program string }{{"amd64", amd64}, {"arm64", arm64}} {
		image, err := Build(&Spec{
			Name: "x", Version: "v1", Architecture: built.architecture, Created: time.Unix(1_700_000_000, 0), User: "65532:65532", Entrypoint: "/x",
			Layers: [][]archive.File{append(Accounts(), archive.File{Path: "x", Mode: 0o755, Data: []byte(built.program)})},
		})
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	index, err := Index(images)
	if err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	if err := WriteArchive(&content, index, "registry.example.com/x", "v1"); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

func filesOf(t *testing.T, content []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	reader := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(data)
	}
}

func blob(files map[string]string, digest containers.Hash) string {
	return files["blobs/"+digest.Algorithm+"/"+digest.Hex]
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
}
