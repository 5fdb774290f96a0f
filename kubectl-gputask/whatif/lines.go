// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"bytes"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// documents splits YAML at the lines "---". Each document begins with as many empty lines as there are lines before it,
// so that what is said about its lines is true of the whole text.
func documents(text []byte) (list [][]byte) {
	var current []byte
	before := 0
	for line := range bytes.Lines(text) {
		before++
		if rest, isEnd := bytes.CutPrefix(line, []byte("---")); isEnd && len(bytes.TrimSpace(rest)) == 0 {
			list, current = append(list, current), bytes.Repeat([]byte("\n"), before)
			continue
		}
		current = append(current, line...)
	}
	list = append(list, current)
	return withoutEmpty(list)
}

func withoutEmpty(list [][]byte) (kept [][]byte) {
	for _, document := range list {
		if len(bytes.TrimSpace(document)) > 0 {
			kept = append(kept, document)
		}
	}
	return kept
}

// lines are the lines of the fields of an object, by their paths as in the API server's messages; nil if unknown.
type lines map[string]int

// linesOf returns the lines of the fields in a YAML document.
func linesOf(document []byte) lines {
	var root yaml.Node
	if yaml.Unmarshal(document, &root) != nil || len(root.Content) == 0 {
		return nil
	}
	found := lines{}
	found.add(root.Content[0], "")
	return found
}

// maxNodes limits how many fields are looked at: aliases can make a short text endless.
const maxNodes = 10_000

func (l lines) add(node *yaml.Node, path string) {
	for i, inner := range node.Content {
		if len(l) >= maxNodes {
			return
		}
		switch {
		case node.Kind == yaml.SequenceNode:
			at := fmt.Sprintf("%s[%d]", path, i)
			l[at] = inner.Line
			l.add(inner, at)
		case node.Kind == yaml.MappingNode && i%2 == 1:
			at := strings.TrimPrefix(path+"."+node.Content[i-1].Value, ".")
			l[at] = node.Content[i-1].Line
			l.add(inner, at)
		}
	}
}

// within returns the lines of the object at a path.
func (l lines) within(path string) lines {
	found := lines{}
	for at, line := range l {
		if rest, isWithin := strings.CutPrefix(at, path+"."); isWithin {
			found[rest] = line
		}
	}
	return found
}

// of returns the line of a field, or the nearest one around it that there is; 0 if that is unknown.
func (l lines) of(path string) int {
	for path != "" {
		if line, known := l[path]; known {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}
