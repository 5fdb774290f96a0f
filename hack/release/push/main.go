// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command push uploads the images of a release to the registry that their archives name, with
// the credentials that "docker login" has left.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"falldio.github.io/gpu-controller/hack/release/image"
)

func main() {
	folder := flag.String("release", "release", "the folder of the release")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := push(ctx, *folder)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "push:", err)
		os.Exit(1)
	}
}

// push uploads all images of a release.
func push(ctx context.Context, folder string) error {
	archives, err := filepath.Glob(filepath.Join(folder, "images", "*.tar"))
	if err != nil {
		return err
	}
	if len(archives) == 0 {
		return fmt.Errorf("%s has no images: make a release first with `make release REGISTRY=registry.example.com/path`", folder)
	}
	for _, archive := range archives {
		if err := pushArchive(ctx, archive); err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
	}
	return nil
}

func pushArchive(ctx context.Context, archive string) error {
	folder, err := os.MkdirTemp("", "push-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	index, reference, err := image.ReadArchive(archive, folder)
	if err != nil {
		return err
	}
	if strings.HasPrefix(reference, "localhost/") {
		return fmt.Errorf("image %s has no registry: make the release with `make release REGISTRY=registry.example.com/path`", reference)
	}
	target, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(target, index, remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithContext(ctx)); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", reference, digest)
	return nil
}
