// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	containers "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"falldio.github.io/gpu-controller/hack/release/archive"
	packing "falldio.github.io/gpu-controller/hack/release/chart"
	"falldio.github.io/gpu-controller/hack/release/image"
)

// TestTheRegistryHasTheImagesAfterwards pushes to a registry in this process and pulls from it.
func TestTheRegistryHasTheImagesAfterwards(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	where := strings.TrimPrefix(server.URL, "http://") + "/gpu/x"
	folder, want := writeRelease(t, where)
	chart := writeChart(t, folder)
	var out strings.Builder
	if err := push(t.Context(), folder, &out); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(where + ":v1")
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := index.Digest(); err != nil || got != want {
		t.Errorf("the registry has %v, %v, want %v", got, err, want)
	}
	image, err := remote.Image(tag, remote.WithPlatform(containers.Platform{OS: "linux", Architecture: "arm64"}))
	if err != nil {
		t.Fatal(err)
	}
	if config, err := image.ConfigFile(); err != nil || config.Architecture != "arm64" {
		t.Errorf("for arm64 it has %+v, %v", config, err)
	}
	if got, want := out.String(), checkChart(t, path.Dir(where), chart); !strings.HasSuffix(got, want) || !strings.HasPrefix(got, digestOf(t, index)+"  "+where+"\n") {
		t.Errorf("it printed\n%swant the image and\n%s", got, want)
	}
}

// checkChart checks the chart in a registry, and returns what is to be printed about it.
func checkChart(t *testing.T, registry string, content []byte) string {
	t.Helper()
	tag, err := name.NewTag(registry + "/charts/gpu-controller:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Image(tag)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := got.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Config.MediaType != chartConfig || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != chartContent {
		t.Errorf("the manifest is %+v", manifest)
	}
	if config, err := got.RawConfigFile(); err != nil || !strings.Contains(string(config), `"appVersion":"v1.2.3"`) {
		t.Errorf("the configuration is %s, %v", config, err)
	}
	layers, err := got.Layers()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	if stored, err := io.ReadAll(stream); err != nil || !bytes.Equal(stored, content) {
		t.Errorf("the registry has another archive: %v", err)
	}
	return digestOf(t, got) + "  " + tag.Context().Name() + "\n"
}

func digestOf(t *testing.T, of interface {
	Digest() (containers.Hash, error)
}) string {
	t.Helper()
	digest, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.Hex
}

// writeChart writes our chart into a release, and returns its archive.
func writeChart(t *testing.T, folder string) []byte {
	t.Helper()
	name, content, err := packing.Pack(filepath.Join("..", "..", "..", "charts", "gpu-controller"), &packing.Release{Version: "v1.2.3", Registry: "registry.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "chart"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "chart", name), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return content
}

func TestWhatCannotBePushedIsExplained(t *testing.T) {
	t.Parallel()
	local, _ := writeRelease(t, "localhost/x")
	for folder, want := range map[string]string{local: "has no registry", t.TempDir(): "has no images"} {
		if err := push(t.Context(), folder, io.Discard); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "make release") {
			t.Errorf("got %v, want an error with %q and the way out", err, want)
		}
	}
}

// writeRelease writes a release with one image, and returns its folder and the image's digest.
func writeRelease(t *testing.T, where string) (string, containers.Hash) {
	t.Helper()
	var images []containers.Image
	for _, architecture := range []string{"amd64", "arm64"} {
		built, err := image.Build(&image.Spec{
			Name: "x", Version: "v1", Architecture: architecture, Created: time.Unix(0, 0), User: "65532:65532", Entrypoint: "/x",
			Layers: [][]archive.File{{{Path: "x", Mode: 0o755, Data: []byte(architecture)}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, built)
	}
	index, err := image.Index(images)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "images"), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(folder, "images", "x.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if err := image.WriteArchive(file, index, where, "v1"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return folder, digest
}
