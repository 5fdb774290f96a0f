// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	containers "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"falldio.github.io/gpu-controller/hack/release/archive"
	"falldio.github.io/gpu-controller/hack/release/image"
)

// TestTheRegistryHasTheImagesAfterwards pushes to a registry in this process and pulls from it.
func TestTheRegistryHasTheImagesAfterwards(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	where := strings.TrimPrefix(server.URL, "http://") + "/gpu/x"
	folder, want := writeRelease(t, where)
	if err := push(t.Context(), folder); err != nil {
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
}

func TestWhatCannotBePushedIsExplained(t *testing.T) {
	t.Parallel()
	local, _ := writeRelease(t, "localhost/x")
	for folder, want := range map[string]string{local: "has no registry", t.TempDir(): "has no images"} {
		if err := push(t.Context(), folder); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "make release") {
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
