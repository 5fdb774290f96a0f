// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"bytes"
	"encoding/json"
	"slices"

	"falldio.github.io/gpu-controller/pkg/inventory"
)

// annotation is the annotation's value as JSON, so that unknown parts are preserved when the
// rest is changed.
type annotation struct {
	version string
	// fields are all but the version and the containers.
	fields map[string]json.RawMessage
	// containers are those whose value is an object, others the rest.
	containers map[string]map[string]json.RawMessage
	others     map[string]json.RawMessage
}

// parse parses an annotation. Invalid parts are treated as missing: nothing can use them.
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

// isUnknownVersion reports whether an annotation is of a version that this program does not
// know, and can neither check nor correct.
func (a *annotation) isUnknownVersion() bool {
	return a.version != "" && a.version != inventory.Version
}

// get returns a container's devices of a resource; false if they can't be read.
func (a *annotation) get(container, resource string) ([]string, bool) {
	value, there := a.containers[container][resource]
	if !there {
		return nil, true
	}
	var ids []string
	err := json.Unmarshal(value, &ids)
	return normalized(ids), err == nil
}

// set sets a container's devices of a resource. It returns whether that is a change.
func (a *annotation) set(container, resource string, ids []string) bool {
	if current, ok := a.get(container, resource); ok && slices.Equal(current, normalized(ids)) {
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
	a.containers[container][resource] = encode(normalized(ids))
	return true
}

// enforce sets what limits containers to their shares. It returns whether that is a change.
// What is recorded of other containers stays: it was known once, and does not change.
func (a *annotation) enforce(known map[string]string) bool {
	var recorded map[string]string
	if json.Unmarshal(a.fields[enforcementField], &recorded) != nil || recorded == nil {
		recorded = map[string]string{}
	}
	changed := false
	for container, enforcement := range known {
		changed = changed || recorded[container] != enforcement
		recorded[container] = enforcement
	}
	if changed {
		a.fields[enforcementField] = encode(recorded)
	}
	return changed
}

// enforcementField is the JSON name of inventory.Assignment's Enforcement.
const enforcementField = "enforcement"

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

// encode encodes a value without escaping for HTML.
func encode(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) //nolint:errchkjson // what has been parsed is JSON
	return bytes.TrimSpace(buffer.Bytes())
}

// normalized returns sorted IDs without duplicates.
func normalized(ids []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}
