// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// placeholder is where schema.yaml wants the flags of a program.
const placeholder = "flagsOf"

// addToSchema puts the flags of a program into the schema where schema.yaml has its placeholder.
func addToSchema(schema map[string]any, p program, settings []setting) error {
	flags := find(schema, p.name)
	if flags == nil {
		return errors.New("no placeholder names it")
	}
	delete(flags, placeholder)
	said, _ := flags["properties"].(map[string]any)
	properties := map[string]any{}
	for i := range settings {
		s := &settings[i]
		property := s.schema()
		more, _ := said[s.Name].(map[string]any)
		delete(said, s.Name)
		maps.Copy(property, more)
		if err := s.mentions(property["enum"]); err != nil {
			return err
		}
		properties[s.Name] = property
	}
	for name := range said {
		return fmt.Errorf("there is no flag --%s", name)
	}
	flags["type"], flags["additionalProperties"], flags["properties"] = "object", false, properties
	return nil
}

// find returns the object with the placeholder of a program, nil if there is none.
func find(node any, name string) map[string]any {
	object, ok := node.(map[string]any)
	if !ok {
		return nil
	}
	if object[placeholder] == name {
		return object
	}
	for _, child := range object {
		if found := find(child, name); found != nil {
			return found
		}
	}
	return nil
}

// schema returns the schema of a flag's value.
func (s *setting) schema() map[string]any {
	property := map[string]any{"description": s.Usage}
	switch s.kind {
	case boolean:
		property["type"] = "boolean"
	case integer:
		property["type"] = "integer"
	case number:
		property["type"] = "number"
	case duration:
		property["type"], property["pattern"] = "string", `^(0|-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	case listOfTexts:
		property["type"], property["items"] = "array", map[string]any{"type": "string"}
	case listOfIntegers:
		property["type"], property["items"] = "array", map[string]any{"type": "integer"}
	default:
		property["type"] = "string"
	}
	return property
}

// mentions returns an error if the description of a flag does not mention one of the values to which
// schema.yaml confines it: then the program has changed, but not schema.yaml.
func (s *setting) mentions(enum any) error {
	values, _ := enum.([]any)
	for _, value := range values {
		if text, ok := value.(string); ok && !strings.Contains(s.Usage+s.Default, text) {
			return fmt.Errorf("--%s: its description does not mention %q", s.Name, text)
		}
	}
	return nil
}
