// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestClaimTakesAMissingAndAnEmptyDirectory(t *testing.T) {
	for name, dir := range map[string]string{
		"missing": filepath.Join(t.TempDir(), "deep", "cluster"),
		"empty":   t.TempDir(),
	} {
		t.Run(name, func(t *testing.T) {
			claim(t, dir)
		})
	}
}

func TestClaimRefusesADirectoryWithForeignFiles(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "thesis.tex")
	write(t, foreign)

	if _, err := Claim(t.Context(), dir); err == nil {
		t.Fatal("the directory was claimed")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("the foreign file is gone: %v", err)
	}
}

func TestClaimRefusesADirectoryWithALiveCluster(t *testing.T) {
	dir := t.TempDir()
	claim(t, dir)

	if _, err := Claim(t.Context(), dir); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v, want %v", err, ErrInUse)
	}
}

func TestClaimWipesWhatADeadClusterLeft(t *testing.T) {
	dir := t.TempDir()
	lock := claim(t, dir)
	leftover := filepath.Join(dir, "etcd", "member")
	write(t, leftover)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}

	claim(t, dir)
	if _, err := os.Stat(leftover); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the leftover still exists: %v", err)
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	claim(t, dir)
	write(t, filepath.Join(dir, "etcd", "member"))

	if err := Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory still exists: %v", err)
	}
	if err := Remove(dir); err != nil {
		t.Errorf("removing it again: %v", err)
	}
}

func claim(t *testing.T, dir string) *os.File {
	t.Helper()
	lock, err := Claim(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	return lock
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}
