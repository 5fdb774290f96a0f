// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// File is a YAML file with the rules of a network.
type File struct {
	path    string
	network *Network
	content []byte
}

// NewFile returns a File. The file need not exist yet.
func NewFile(path string, network *Network) *File { return &File{path: path, network: network} }

// Check reads the file and applies its changes. Call it periodically. An invalid file leaves
// the rules as they were.
func (f *File) Check() error {
	content, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the simulated network: %w", err)
	}
	if bytes.Equal(content, f.content) {
		return nil
	}
	f.content = content
	rules, err := ParseRules(content)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.network.SetRules(rules)
	return nil
}
