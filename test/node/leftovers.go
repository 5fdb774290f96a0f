// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// directoryPattern matches the directories of runs; control groups have the
	// same names.
	directoryPattern = "realnode-*"
	// lockFile is locked while the run lasts; the lock ends with the run, however
	// that ends.
	lockFile = "lock"
)

// makeDirectory makes a run's directory, which other runs do not remove until
// release is called.
func makeDirectory() (dir string, release func(), err error) {
	if dir, err = os.MkdirTemp("", directoryPattern); err != nil {
		return "", nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	if err := tryLock(lock); err != nil {
		return "", nil, err
	}
	return dir, func() { _ = lock.Close() }, nil
}

// removeLeftovers removes what killed runs have left behind.
func removeLeftovers() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), directoryPattern))
	if err != nil {
		return err
	}
	var problems []error
	for _, dir := range dirs {
		problems = append(problems, removeLeftover(dir))
	}
	return errors.Join(problems...)
}

func removeLeftover(dir string) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // it has just begun, or was kept, or is not a directory
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if tryLock(lock) != nil {
		return nil // it still runs
	}
	return errors.Join(removeCgroups(filepath.Base(dir)), os.RemoveAll(dir))
}

func tryLock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
