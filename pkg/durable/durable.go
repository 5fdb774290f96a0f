// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package durable replaces files in one step, and removes them.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Unfinished ends the names of files that are being written. Container runtimes ignore them.
const Unfinished = ".tmp"

// Replace replaces a file, so that others never see a part of the content, and so that it has either
// content even after the machine has lost its power.
func Replace(path string, content []byte, mode os.FileMode) error {
	temporary := path + Unfinished
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode) //nolint:gosec // an administrator chooses the directory
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Remove removes files that are there. An unfinished one may have been finished meanwhile.
func Remove(paths ...string) error {
	var problems []error
	for _, path := range paths {
		if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
