// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"bytes"
	"encoding/json"
	"slices"

	"falldio.github.io/gpu-controller/pkg/inventory"
)

// annotation is the annotation's value as JSON, so that what this program does
// not know stays as it is when it changes the rest.
type annotation struct {
	version string
	// fields are all but the version and the containers.
	fields map[string]json.RawMessage
	// containers are those that are objects, others the rest.
	containers map[string]map[string]json.RawMessage
	others     map[string]json.RawMessage
}

// parse reads an annotation. What is damaged is as if it were not there: it says
// nothing to anybody.
func parse(value string) *annotation {
	a := &annotation{containers: map[string]map[string]json.RawMessage{}, others: map[string]json.RawMessage{}}
	if json.Unmarshal([]byte(value), &a.fields) != nil || a.fields == nil {
		a.fields = map[string]json.RawMessage{}
	}
	if version, there := a.fields["version"]; there && json.Unmarshal(version, &a.version) != nil {
		a.version = string(version)
	}
	var containers map[string]json.RawMessage
	if json.Unmarshal(a.fields["containers"], &containers) == nil {
		for name, container := range containers {
			var devices map[string]json.RawMessage
			if json.Unmarshal(container, &devices) == nil && devices != nil {
				a.containers[name] = devices
			} else {
				a.others[name] = container
			}
		}
	}
	delete(a.fields, "version")
	delete(a.fields, "containers")
	return a
}

// foreign reports whether an annotation is of a version that this program does not
// know: it can neither say whether it is right nor correct it.
func (a *annotation) foreign() bool { return a.version != "" && a.version != inventory.Version }

// get returns the devices of a resource that a container has; false if that can't
// be read.
func (a *annotation) get(container, resource string) ([]string, bool) {
	value, there := a.containers[container][resource]
	if !there {
		return nil, true
	}
	var ids []string
	err := json.Unmarshal(value, &ids)
	return normal(ids), err == nil
}

// set says which devices of a resource a container has. It returns false if that
// is no news.
func (a *annotation) set(container, resource string, ids []string) bool {
	if claimed, ok := a.get(container, resource); ok && slices.Equal(claimed, normal(ids)) {
		return false
	}
	if len(ids) == 0 {
		delete(a.containers[container], resource)
		if len(a.containers[container]) == 0 {
			delete(a.containers, container)
		}
		return true
	}
	if a.containers[container] == nil {
		a.containers[container] = map[string]json.RawMessage{}
		delete(a.others, container)
	}
	a.containers[container][resource] = encode(normal(ids))
	return true
}

// String returns the annotation's value, the version first.
func (a *annotation) String() string {
	containers := make(map[string]any, len(a.containers)+len(a.others))
	for name, devices := range a.containers {
		containers[name] = devices
	}
	for name, other := range a.others {
		containers[name] = other
	}
	text := encode(struct {
		Version    string         `json:"version"`
		Containers map[string]any `json:"containers"`
	}{inventory.Version, containers})
	if len(a.fields) > 0 {
		more := encode(a.fields)
		text = slices.Concat(text[:len(text)-1], []byte(","), more[1:])
	}
	return string(text)
}

// encode leaves characters as they are that matter in HTML alone.
func encode(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) //nolint:errchkjson // what has been parsed is JSON
	return bytes.TrimSpace(buffer.Bytes())
}

// normal sorts IDs and has each once.
func normal(ids []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}
