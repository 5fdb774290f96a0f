// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package directory manages the directory of a local cluster: at most one running
// cluster uses it, files of other origin are never deleted, and it is removed with
// the cluster.
package directory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// lockName is the file that marks a directory as ours. It is locked while the
	// cluster runs.
	lockName = "localcluster.lock"
	lockText = "This directory belongs to localcluster, which deletes it when the cluster stops.\n"

	// A cluster that was just killed needs a moment to clean up.
	lockTimeout  = time.Second
	lockInterval = 50 * time.Millisecond
)

// ErrInUse is returned for a directory that a running cluster uses.
var ErrInUse = errors.New("a cluster is running there: stop it, or choose another directory with --dir")

// Claim makes dir an empty directory of ours and returns its lock file. The
// lock is held for as long as any process has the returned file open, so passing
// it to a child makes the lock outlive this process.
func Claim(ctx context.Context, dir string) (*os.File, error) {
	if err := refuseForeign(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the cluster's directory: %w", err)
	}
	lock, err := acquire(ctx, filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", dir, err)
	}
	if err := removeContents(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("emptying the directory of an earlier cluster: %w", err), lock.Close())
	}
	return lock, nil
}

// Remove deletes a directory that its caller has claimed. The lock file is deleted
// last: until then no other cluster can claim the directory, and afterwards only an
// empty directory is deleted, so another cluster's files are safe.
func Remove(dir string) error {
	if err := removeContents(dir); err != nil {
		return err
	}
	if err := ignoreMissing(os.Remove(filepath.Join(dir, lockName))); err != nil {
		return err
	}
	err := os.Remove(dir)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		return nil // another cluster claimed it in the meantime
	}
	return ignoreMissing(err)
}

// refuseForeign returns an error for a directory with files that are not ours.
func refuseForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the cluster's directory: %w", err)
	}
	if slices.ContainsFunc(entries, func(entry fs.DirEntry) bool { return entry.Name() == lockName }) {
		return nil
	}
	return fmt.Errorf("directory %s is not empty and not localcluster's: empty it, or choose another one with --dir", dir)
}

func acquire(ctx context.Context, path string) (*os.File, error) {
	var lock *os.File
	err := wait.PollUntilContextTimeout(ctx, lockInterval, lockTimeout, true, func(context.Context) (bool, error) {
		var err error
		lock, err = tryAcquire(path)
		return lock != nil, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil, ErrInUse
	}
	return lock, err
}

// tryAcquire returns nil without an error while another process holds the lock.
func tryAcquire(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the user chose it
	if errors.Is(err, fs.ErrNotExist) {
		return nil, os.MkdirAll(filepath.Dir(path), 0o700) // its last owner deleted it just now
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(ignoreBusy(err), lock.Close())
	}
	// The last owner may have deleted the file after we opened and before we locked
	// it; such a lock excludes no one.
	opened, err := lock.Stat()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if named, err := os.Stat(path); err != nil || !os.SameFile(opened, named) {
		return nil, errors.Join(ignoreMissing(err), lock.Close())
	}
	if err := os.WriteFile(path, []byte(lockText), 0o600); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// removeContents deletes everything but the lock file.
func removeContents(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	var failed []error
	for _, entry := range entries {
		if entry.Name() != lockName {
			failed = append(failed, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return errors.Join(failed...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func ignoreBusy(err error) error {
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return nil
	}
	return err
}
