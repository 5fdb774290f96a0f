// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Manifest is a task in a file.
type Manifest struct {
	*v1.GPUTask
	lines lines
}

// Manifests are what a file has.
type Manifests struct {
	Tasks []*Manifest
	// Skipped name what is not asked about, since it is of another kind: "document 2: GPUQueue research".
	Skipped []string
	// others are the skipped objects: with their task they would be created, too.
	others []object
}

// Parse reads what "kubectl apply -f" takes from a file, or whatever has that name: YAML or JSON, several documents,
// lists. It only refuses what it can't understand: whether values are valid is for the API server to say.
func Parse(in io.Reader, name string) (*Manifests, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	found := &Manifests{}
	for i, document := range documents(text) {
		if err := found.add(document, fmt.Sprintf("document %d", i+1)); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return found, nil
}

// OrNone returns an error if there are no tasks in what was read from files, or whatever has that name.
func (m *Manifests) OrNone(name string) error {
	switch {
	case len(m.Tasks) > 0:
		return nil
	case len(m.Skipped) > 0:
		return fmt.Errorf("reading %s: there are no GPUTasks in it, but %s", name, strings.Join(m.Skipped, ", "))
	default:
		return fmt.Errorf("reading %s: there are no GPUTasks in it", name)
	}
}

// Append adds what a file has, or the standard input.
func (m *Manifests) Append(other *Manifests, name string) {
	m.Tasks, m.others = append(m.Tasks, other.Tasks...), append(m.others, other.others...)
	for _, skipped := range other.Skipped {
		if name != "-" {
			skipped = name + ", " + skipped
		}
		m.Skipped = append(m.Skipped, skipped)
	}
}

// add adds what a document has. where tells it from the other ones.
func (m *Manifests) add(document []byte, where string) error {
	if objects := jsonObjects(document); objects != nil {
		for _, object := range objects {
			if err := m.addObject(object, nil, where); err != nil {
				return err
			}
		}
		return nil
	}
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "))
	}
	objects := jsonObjects(text)
	switch {
	case string(text) == "null":
		return nil // only comments
	case len(objects) == 0:
		return fmt.Errorf("%s: must be an object with the fields apiVersion, kind, metadata and spec", where)
	}
	return m.addObject(objects[0], linesOf(document), where)
}

// jsonObjects returns the objects in a text of JSON; nil for other text.
func jsonObjects(text []byte) (objects []map[string]any) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	for {
		var object map[string]any
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil || object == nil:
			return nil
		}
		objects = append(objects, object)
	}
}

// addObject adds an object, or those in a list.
func (m *Manifests) addObject(fields map[string]any, at lines, where string) error {
	kind, _ := fields["kind"].(string)
	if items, isList := fields["items"].([]any); isList && strings.HasSuffix(kind, "List") {
		for i, item := range items {
			one, isObject := item.(map[string]any)
			if !isObject {
				return fmt.Errorf("%s, items[%d]: must be an object", where, i)
			}
			if one["kind"] == nil && kind == v1.TaskKind().Kind+"List" {
				one["apiVersion"], one["kind"] = fields["apiVersion"], v1.TaskKind().Kind
			}
			if err := m.addObject(one, at.within(fmt.Sprintf("items[%d]", i)), fmt.Sprintf("%s, items[%d]", where, i)); err != nil {
				return err
			}
		}
		return nil
	}
	version, _ := fields["apiVersion"].(string)
	metadata, _ := fields["metadata"].(map[string]any)
	if kind != v1.TaskKind().Kind || version != v1.GroupVersion.String() {
		if kind == v1.TaskKind().Kind || kind == "" {
			return fmt.Errorf("%s: must have apiVersion: %s and kind: %s", where, v1.GroupVersion, v1.TaskKind().Kind)
		}
		name, _ := metadata["name"].(string)
		m.others = append(m.others, object{kind, name})
		m.Skipped = append(m.Skipped, strings.TrimSpace(fmt.Sprintf("%s: %s %s", where, kind, name)))
		return nil
	}
	if err := checkFields(fields, at); err != nil {
		return err
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	task := &v1.GPUTask{}
	if err := json.Unmarshal(text, task); err != nil {
		return errors.New(inWords(err))
	}
	m.Tasks = append(m.Tasks, &Manifest{GPUTask: task, lines: at})
	return nil
}

// inWords says without Go's types what is wrong with a value that checkFields has let through, such as a quantity or a
// time.
func inWords(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Sprintf("%s: must not be a %s", cmp.Or(wrong.Field, "a field"), wrong.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// checkFields returns an error about the first field that a task has not, or that has a value of another type.
func checkFields(object map[string]any, at lines) error {
	problem := problemIn(object, reflect.TypeFor[v1.GPUTask](), "")
	if problem == nil {
		return nil
	}
	problem.Line = at.of(problem.Path)
	return &InvalidError{Fields: []InvalidField{*problem}}
}
