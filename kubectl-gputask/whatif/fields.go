// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/pkg/spelling"
)

// InvalidError is what is wrong with fields of a manifest.
type InvalidError struct {
	Fields []InvalidField
}

// Error names each field with its line: "line 7: spec.replicas: Invalid value: 0: …".
func (e *InvalidError) Error() string {
	texts := make([]string, len(e.Fields))
	for i := range e.Fields {
		texts[i] = e.Fields[i].String()
		if line := e.Fields[i].Line; line > 0 {
			texts[i] = fmt.Sprintf("line %d: %s", line, texts[i])
		}
	}
	return strings.Join(texts, "; ")
}

// InvalidField is what is wrong with a field of a manifest.
type InvalidField struct {
	// Path is that of the field: "spec.gpuAmount".
	Path string `json:"path"`
	// Line is that in the text; 0 if it is unknown.
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
	// unknown is true for a field that there is not.
	unknown bool
}

func (f *InvalidField) String() string {
	if f.unknown {
		return "unknown field " + f.Path + f.Text
	}
	return f.Path + ": " + f.Text
}

// isAmount reports whether a field of the spec is text or a number.
func isAmount(path string) bool {
	name := path[strings.LastIndex(path, ".")+1:]
	return slices.Contains([]string{"cpu", "memory", "gpu-amount", "gpuMemory"}, name)
}

// renamed returns the field of a task's spec for which other systems have that name; empty if there is none.
func renamed(name string) string {
	switch name {
	case "gpus", "gpuCount":
		return "gpu-amount"
	case "gpuModel", "gpuType", "model":
		return "gpu"
	case "pods", "nodes", "parallelism":
		return "replicas"
	case "priorityClass", "priorityClassName":
		return "priority"
	case "queueName":
		return "queue"
	default:
		return ""
	}
}

// flagFor returns how "kubectl gputask run" sets a field of a container that people look for in the spec; empty if
// it does not.
func flagFor(name string) string {
	switch name {
	case "image", "env":
		return "kubectl gputask run --" + name
	case "command", "args":
		return "kubectl gputask run NAME -- COMMAND"
	default:
		return ""
	}
}

// problemIn returns what is wrong with the first field of a value that is to be decoded into a type: fields are looked
// at in the order of their names.
func problemIn(value any, as reflect.Type, path string) *InvalidField {
	for as.Kind() == reflect.Pointer {
		as = as.Elem()
	}
	if value == nil {
		return nil
	}
	if as.Kind() == reflect.String && isAmount(path) {
		return mustBe(value, path, "text or a number", isText(value) || isNumber(value))
	}
	if decodesItself(as) {
		return nil
	}
	switch as.Kind() {
	case reflect.Struct:
		fields, isObject := value.(map[string]any)
		if !isObject {
			return mustBe(value, path, "an object with fields", false)
		}
		return problemInFields(fields, as, path)
	case reflect.Map:
		return problemInMap(value, as, path)
	case reflect.Slice:
		return problemInList(value, as, path)
	case reflect.String:
		return mustBe(value, path, "text"+quoted(value), isText(value))
	case reflect.Bool:
		_, isBool := value.(bool)
		return mustBe(value, path, "true or false", isBool)
	default:
		return mustBe(value, path, "a whole number", isWhole(value))
	}
}

func problemInFields(fields map[string]any, as reflect.Type, path string) *InvalidField {
	known := fieldsOf(as)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		inner := strings.TrimPrefix(path+"."+name, ".")
		field, isKnown := known[name]
		if !isKnown {
			return &InvalidField{Path: inner, Text: suggestion(name, as, path), unknown: true}
		}
		if found := problemIn(fields[name], field, inner); found != nil {
			return found
		}
	}
	return nil
}

func problemInMap(value any, as reflect.Type, path string) *InvalidField {
	entries, isObject := value.(map[string]any)
	if !isObject {
		return mustBe(value, path, "an object with names and values", false)
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if found := problemIn(entries[key], as.Elem(), path+"["+key+"]"); found != nil {
			return found
		}
	}
	return nil
}

func problemInList(value any, as reflect.Type, path string) *InvalidField {
	items, isList := value.([]any)
	if !isList {
		if _, isBytes := value.(string); isBytes && as.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		return mustBe(value, path, "a list", false)
	}
	for i, item := range items {
		if found := problemIn(item, as.Elem(), fmt.Sprintf("%s[%d]", path, i)); found != nil {
			return found
		}
	}
	return nil
}

// suggestion ends a sentence about an unknown field with the name of the field that may be meant.
func suggestion(name string, as reflect.Type, path string) string {
	meant := spelling.Nearest(name, slices.Collect(maps.Keys(fieldsOf(as))))
	if path == "spec" {
		meant = cmp.Or(renamed(name), meant)
	}
	if meant != "" {
		return ": did you mean " + strings.TrimPrefix(path+"."+meant, ".") + "?"
	}
	inner := within(name, as)
	if inner == "" {
		return ": kubectl explain gputask." + path + " lists the fields"
	}
	text := ": did you mean " + strings.TrimPrefix(path+"."+inner, ".")
	if flag := flagFor(name); path == "spec" && flag != "" {
		text += ", or " + flag
	}
	return text + "?"
}

// within returns the path of a field of that name in the objects within a type; empty if there is none.
func within(name string, as reflect.Type) string {
	for _, inner := range []string{"metadata", "template", "spec", "containers"} {
		field, found := fieldsOf(as)[inner]
		if !found {
			continue
		}
		path := inner
		if field.Kind() == reflect.Slice {
			path = inner + "[0]"
		}
		for field.Kind() == reflect.Pointer || field.Kind() == reflect.Slice {
			field = field.Elem()
		}
		if _, found := fieldsOf(field)[name]; found {
			return path + "." + name
		}
		if deeper := within(name, field); deeper != "" {
			return path + "." + deeper
		}
	}
	return ""
}

// fieldsOf returns the fields of a struct by their names in JSON.
func fieldsOf(as reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for as.Kind() == reflect.Pointer {
		as = as.Elem()
	}
	if as.Kind() != reflect.Struct {
		return fields
	}
	for field := range as.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && (name == "" || strings.Contains(options, "inline")):
			maps.Copy(fields, fieldsOf(field.Type))
		case name != "" && name != "-":
			fields[name] = field.Type
		}
	}
	return fields
}

// decodesItself reports whether a type of Kubernetes' own, such as a quantity or a time, reads its value.
func decodesItself(as reflect.Type) bool {
	_, ours := fieldsOf(as)["template"]
	return !ours && reflect.PointerTo(as).Implements(reflect.TypeFor[json.Unmarshaler]())
}

func mustBe(value any, path, what string, is bool) *InvalidField {
	if is {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		text = nil
	}
	const shown = 40
	if len(text) > shown {
		text = append(text[:shown:shown], "…"...)
	}
	return &InvalidField{Path: path, Text: fmt.Sprintf("Invalid value: %s: must be %s", text, what)}
}

// quoted shows how a number or a boolean becomes text.
func quoted(value any) string {
	switch value.(type) {
	case json.Number, bool:
		return fmt.Sprintf(`; put it in quotes: "%v"`, value)
	default:
		return ""
	}
}

func isText(value any) bool {
	_, is := value.(string)
	return is
}

func isNumber(value any) bool {
	_, is := value.(json.Number)
	return is
}

func isWhole(value any) bool {
	number, is := value.(json.Number)
	if !is {
		return false
	}
	_, err := number.Int64()
	return err == nil
}
