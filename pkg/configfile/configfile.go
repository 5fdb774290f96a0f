// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package configfile reads files that users write. Errors name the file.
package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Load reads a file and parses it. what is what the file has, for messages.
func Load[T any](what, path string, parse func([]byte) (T, error)) (parsed T, err error) {
	content, err := os.ReadFile(path) //nolint:gosec // the user chose it
	if err != nil {
		return parsed, fmt.Errorf("reading %s: %w", what, err)
	}
	if parsed, err = parse(content); err != nil {
		return parsed, fmt.Errorf("%s: %w", path, err)
	}
	return parsed, nil
}

// Watched is a file that may be written at any time. It need not exist: then it is empty.
type Watched[T any] struct {
	// What is what the file at Path has, for messages.
	What, Path string
	Parse      func([]byte) (T, error)
	// Apply applies the difference between two contents that could be parsed.
	Apply func(before, after T) error

	content []byte
	last    T
}

// Check reads the file, and applies what has changed. Call it periodically. An invalid file
// changes nothing.
func (w *Watched[T]) Check() error {
	content, err := os.ReadFile(w.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading %s: %w", w.What, err)
	}
	if bytes.Equal(content, w.content) {
		return nil
	}
	w.content = content
	parsed, err := w.Parse(content)
	if err != nil {
		return fmt.Errorf("%s: %w", w.Path, err)
	}
	before := w.last
	w.last = parsed
	return w.Apply(before, parsed)
}
