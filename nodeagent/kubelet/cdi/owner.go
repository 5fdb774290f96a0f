// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/durable"
)

// Owner is a program that describes GPUs. Each has a vendor, and so kinds and files, of its own:
// a device that two files describe is one that container runtimes don't inject.
type Owner struct{ vendor string }

// Agent returns the node agent, which gives out the GPUs of most nodes.
func Agent() Owner { return Owner{Vendor} }

// DRADriver returns the DRA driver, which does so where it is switched on.
func DRADriver() Owner { return Owner{v1.DRADriver} }

// Kind returns the kind of the owner's devices of a class.
func (o Owner) Kind(class string) string { return o.vendor + "/" + class }

// Path returns the path of the owner's file about a class in a directory.
func (o Owner) Path(dir, class string) string {
	return filepath.Join(dir, o.vendor+"-"+class+extension)
}

const extension = ".json"

// Files returns the paths of all files of the owner in a directory, with those that a killed
// process has not finished.
func (o Owner) Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, o.vendor+"-") && strings.HasSuffix(strings.TrimSuffix(name, durable.Unfinished), extension) {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return paths, nil
}

// RemoveFiles removes all files of the owner from a directory: containers that have started keep
// their devices, but can't be restarted.
func (o Owner) RemoveFiles(dir string) error {
	paths, err := o.Files(dir)
	return errors.Join(err, durable.Remove(paths...))
}

// WriteSpec writes a specification, in one step: runtimes may read it at any time.
func WriteSpec(path string, spec *specs.Spec) error {
	content, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return fmt.Errorf("the CDI specification %s: %w", path, err)
	}
	return durable.Replace(path, content, mode)
}
