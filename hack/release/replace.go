// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// marker is the file by which a folder is known as that of a release.
const marker = "SHA256SUMS"

// replace makes the release in a folder beside its own, and replaces an earlier release by it only
// when it is complete.
func (r *release) replace(ctx context.Context) error {
	out, err := filepath.Abs(r.out)
	if err != nil {
		return err
	}
	if err := mayBeReplaced(out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil { //nolint:gosec // a release is for everybody to read
		return err
	}
	// In the same file system, so that folders can be renamed.
	work, err := os.MkdirTemp(filepath.Dir(out), filepath.Base(out)+".new-*")
	if err != nil {
		return err
	}
	made := *r
	made.out = filepath.Join(work, "release")
	if err := made.writeAll(ctx); err != nil {
		return errors.Join(err, os.RemoveAll(work))
	}
	if err := swap(made.out, out, filepath.Join(work, "earlier")); err != nil {
		return fmt.Errorf("the new release is left in %s: %w", made.out, err)
	}
	return os.RemoveAll(work)
}

// mayBeReplaced returns an error if a folder has anything but an earlier release.
func mayBeReplaced(out string) error {
	entries, err := os.ReadDir(out)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, marker)); err != nil {
		return fmt.Errorf("folder %s is not empty and has no %s: it is no release, and is left alone", out, marker)
	}
	return nil
}

// swap gives a folder the name of another one, if that exists, and moves that one aside. If it fails,
// that one has its name again.
func swap(folder, name, aside string) error {
	err := os.Rename(name, aside)
	if errors.Is(err, os.ErrNotExist) {
		return os.Rename(folder, name)
	}
	if err != nil {
		return err
	}
	if err := os.Rename(folder, name); err != nil {
		return errors.Join(err, os.Rename(aside, name))
	}
	return nil
}
