// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package examples submits example GPUTasks, and the GPUQueues that they need, to a cluster, shows
// their progress and checks that each ends as its manifest expects.
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
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Examples are what is submitted.
type Examples struct {
	Tasks  []*v1.GPUTask
	Queues []*v1.GPUQueue
}

// Load reads the objects of all YAML files of a folder, in the order of the
// files' names. Unknown kinds and fields are errors.
func Load(files fs.FS, folder string) (*Examples, error) {
	names, err := fs.Glob(files, path.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	loaded := &Examples{}
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		if err := loaded.parse(content); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(loaded.Tasks) == 0 {
		return nil, fmt.Errorf("no example in %s", folder)
	}
	return loaded, nil
}

func (e *Examples) parse(content []byte) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := e.parseObject(document); err != nil {
			return err
		}
	}
}

func (e *Examples) parseObject(document []byte) error {
	var object metav1.TypeMeta
	if err := yaml.Unmarshal(document, &object); err != nil {
		return err
	}
	switch object.Kind {
	case "GPUQueue":
		queue := &v1.GPUQueue{}
		e.Queues = append(e.Queues, queue)
		return yaml.UnmarshalStrict(document, queue)
	case v1.TaskKind().Kind:
		task := &v1.GPUTask{}
		e.Tasks = append(e.Tasks, task)
		if err := checkFields(document); err != nil {
			return err
		}
		return yaml.Unmarshal(document, task)
	default:
		return fmt.Errorf("the kind %q is neither GPUTask nor GPUQueue", object.Kind)
	}
}

// checkFields returns which field of a task there is not. A GPUTaskSpec decodes itself, and knows no strictness.
func checkFields(document []byte) error {
	type fields v1.GPUTaskSpec
	task := struct {
		metav1.TypeMeta
		metav1.ObjectMeta `json:"metadata"`
		Spec              fields           `json:"spec"`
		Status            v1.GPUTaskStatus `json:"status"`
	}{}
	err := yaml.UnmarshalStrict(document, &task)
	if err != nil && strings.Contains(err.Error(), "unknown field") {
		return err
	}
	return nil // what else is wrong says decoding the task
}
