// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package examples submits example GPUTasks to a cluster, shows their progress
// and checks that each ends as its manifest expects.
package examples

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Load reads the GPUTasks of all YAML files of a folder, in the order of the
// files' names. Unknown fields are errors.
func Load(files fs.FS, folder string) ([]*v1.GPUTask, error) {
	names, err := fs.Glob(files, path.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var tasks []*v1.GPUTask
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		inFile, err := parse(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		tasks = append(tasks, inFile...)
	}
	if len(tasks) == 0 {
		return nil, fmt.Errorf("no example in %s", folder)
	}
	return tasks, nil
}

func parse(content []byte) ([]*v1.GPUTask, error) {
	var tasks []*v1.GPUTask
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return tasks, nil
		}
		if err != nil {
			return nil, err
		}
		task := &v1.GPUTask{}
		if err := yaml.UnmarshalStrict(document, task); err != nil {
			return nil, err
		}
		tasks = append(tasks, task)
	}
}
