// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	indentation = "    "
	// width is that of the lines in values.yaml.
	width = 104
)

// describe writes the flags of a program between its markers in values.yaml.
func describe(values, name string, settings []setting) (string, error) {
	begin, end := indentation+"# BEGIN "+name+"\n", indentation+"# END "+name+"\n"
	before, rest, hasBegin := strings.Cut(values, begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		return "", fmt.Errorf("values.yaml lacks the lines %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	var lines strings.Builder
	for i := range settings {
		if settings[i].Hidden {
			continue
		}
		if lines.Len() > 0 {
			lines.WriteString("\n")
		}
		if err := settings[i].describe(&lines); err != nil {
			return "", fmt.Errorf("--%s: %w", settings[i].Name, err)
		}
	}
	return before + begin + lines.String() + end + after, nil
}

// describe writes a flag: what it means, and its value.
func (s *setting) describe(lines *strings.Builder) error {
	original, err := inline(s.original)
	if err != nil {
		return err
	}
	usage, comment := s.Usage, "#"
	if s.value != nil {
		usage, comment = usage+" (the program's own default is "+original+")", ""
	}
	for line := range strings.Lines(usage) {
		for _, wrapped := range wrap(strings.TrimSpace(line), width-len(indentation+"# ")) {
			fmt.Fprintf(lines, "%s# %s\n", indentation, wrapped)
		}
	}
	value := original
	if s.value != nil {
		if value, err = inline(s.value); err != nil {
			return err
		}
	}
	fmt.Fprintf(lines, "%s%s%s: %s\n", indentation, comment, s.Name, value)
	return nil
}

// inline returns a value in YAML, in one line.
func inline(value any) (string, error) {
	if text, ok := value.(string); ok {
		plain, err := yaml.Marshal(text)
		return strings.TrimSpace(string(plain)), err
	}
	encoded, err := json.Marshal(value)
	return string(encoded), err
}

// wrap returns a text in lines of at most some characters, if its words permit that.
func wrap(text string, characters int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= characters:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}
