// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command push uploads the images of a release to the registry that their archives name, and the chart into the
// folder charts there, with the credentials that "docker login" has left. It prints their digests and names as
// sha256sum does.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	containers "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"falldio.github.io/gpu-controller/hack/release/image"
)

func main() {
	folder := flag.String("release", "release", "the folder of the release")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := push(ctx, *folder, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "push:", err)
		os.Exit(1)
	}
}

// push uploads all images of a release, and its chart.
func push(ctx context.Context, folder string, out io.Writer) error {
	archives, err := filepath.Glob(filepath.Join(folder, "images", "*.tar"))
	if err != nil {
		return err
	}
	if len(archives) == 0 {
		return fmt.Errorf("%s has no images: make a release first with `make release REGISTRY=registry.example.com/path`", folder)
	}
	var registry string
	for _, archive := range archives {
		if registry, err = pushArchive(ctx, archive, out); err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
	}
	charts, err := filepath.Glob(filepath.Join(folder, "chart", "*.tgz"))
	if err != nil {
		return err
	}
	for _, archive := range charts {
		if err := pushChart(ctx, archive, registry, out); err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
	}
	return nil
}

// pushArchive uploads an image, and returns the registry with the path that it has there.
func pushArchive(ctx context.Context, archive string, out io.Writer) (string, error) {
	folder, err := os.MkdirTemp("", "push-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	index, reference, err := image.ReadArchive(archive, folder)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(reference, "localhost/") {
		return "", fmt.Errorf("image %s has no registry: make the release with `make release REGISTRY=registry.example.com/path`", reference)
	}
	target, err := name.NewTag(reference)
	if err != nil {
		return "", err
	}
	if err := remote.WriteIndex(target, index, options(ctx)...); err != nil {
		return "", err
	}
	return path.Dir(target.Context().Name()), printDigest(out, index, target)
}

func pushChart(ctx context.Context, archive, registry string, out io.Writer) error {
	chart, chartName, version, err := readChart(archive)
	if err != nil {
		return err
	}
	target, err := name.NewTag(registry + "/charts/" + chartName + ":" + version)
	if err != nil {
		return err
	}
	if err := remote.Write(target, chart, options(ctx)...); err != nil {
		return err
	}
	return printDigest(out, chart, target)
}

func options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithContext(ctx)}
}

func printDigest(out io.Writer, pushed interface {
	Digest() (containers.Hash, error)
}, target name.Tag) error {
	digest, err := pushed.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s  %s\n", digest.Hex, target.Context().Name())
	return err
}
