// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Fetcher downloads packages, and keeps them in a folder.
type Fetcher struct {
	Client  *http.Client
	Mirrors []string
	// Folder is where downloaded archives are kept, by their digests.
	Folder string
	// Backoff is how often, and after which pauses, the mirrors are asked.
	Backoff wait.Backoff
}

// NewFetcher returns a fetcher that keeps what it downloads in a folder.
func NewFetcher(mirrors []string, folder string) *Fetcher {
	return &Fetcher{
		Client: &http.Client{Timeout: 2 * time.Minute}, Mirrors: mirrors, Folder: folder,
		Backoff: wait.Backoff{Duration: time.Second, Factor: 2, Steps: 4},
	}
}

// Fetch returns the content of an archive with the right digest. The error names each
// mirror and its answer.
func (f *Fetcher) Fetch(ctx context.Context, a Archive) ([]byte, error) {
	kept := filepath.Join(f.Folder, a.SHA256+".deb")
	if content, err := os.ReadFile(kept); err == nil && a.check(content) == nil { //nolint:gosec // a folder that the user has named
		return content, nil
	}
	var content []byte
	var reasons error
	err := wait.ExponentialBackoffWithContext(ctx, f.Backoff, func(ctx context.Context) (bool, error) {
		content, reasons = f.fromAnyMirror(ctx, a)
		return reasons == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("download of %s: %w (if no mirror has this version any more, put the current one into hack/release/debian/lock.yaml)",
			filepath.Base(a.Path), errors.Join(reasons, ctx.Err()))
	}
	if err := os.MkdirAll(f.Folder, 0o750); err != nil {
		return nil, err
	}
	return content, os.WriteFile(kept, content, 0o600)
}

func (f *Fetcher) fromAnyMirror(ctx context.Context, a Archive) ([]byte, error) {
	var reasons []error
	for _, mirror := range f.Mirrors {
		content, err := f.from(ctx, mirror+"/"+a.Path)
		if err == nil {
			err = a.check(content)
		}
		if err == nil {
			return content, nil
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", mirror, err))
	}
	return nil, errors.Join(reasons...)
}

func (f *Fetcher) from(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := f.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, mostUnpacked))
}

// check returns an error if the content is not what the lock names.
func (a Archive) check(content []byte) error {
	if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != a.SHA256 {
		return fmt.Errorf("its digest is %s, not %s", got, a.SHA256)
	}
	return nil
}
