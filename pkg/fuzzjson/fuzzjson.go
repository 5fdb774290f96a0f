// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fuzzjson changes JSON documents for fuzz targets. Go's fuzzer changes bytes, which mostly
// makes a document no JSON at all; with a program that it changes instead, documents stay well formed,
// and get values that are wrong in the places that matter.
package fuzzjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"
)

// step is how many bytes one change of a program takes: two for the value that changes, one for what
// becomes of it, and two for another value.
const step = 5

// mostSteps bounds the changes of a program, mostCopied what one of them can add.
const (
	mostSteps  = 16
	mostCopied = 4 << 10
)

// Edit changes values of a document as a program says. A document that is no JSON stays as it is.
func Edit(document, program []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	if len(program) < step || decoder.Decode(&value) != nil {
		return document
	}
	root := []any{value}
	for range mostSteps {
		if len(program) < step {
			break
		}
		places := placesIn(root)
		at := places[int(binary.BigEndian.Uint16(program))%len(places)]
		other := places[int(binary.BigEndian.Uint16(program[3:]))%len(places)]
		at.change(program[2], other.get())
		program = program[step:]
	}
	changed, err := json.Marshal(root[0])
	if err != nil {
		return document
	}
	return changed
}

// place is where a value is: in a map under a key, or in a list.
type place struct {
	fields map[string]any
	key    string
	list   []any
	index  int
}

// placesIn returns the places of all values in a list, in an order that depends on them only.
func placesIn(list []any) (places []place) {
	for i := range list {
		at := place{list: list, index: i}
		places = append(append(places, at), inside(at.get())...)
	}
	return places
}

// inside returns the places within a value.
func inside(value any) (places []place) {
	switch value := value.(type) {
	case []any:
		return placesIn(value)
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			at := place{fields: value, key: key}
			places = append(append(places, at), inside(at.get())...)
		}
	}
	return places
}

func (p place) get() any {
	if p.fields != nil {
		return p.fields[p.key]
	}
	return p.list[p.index]
}

func (p place) set(value any) {
	if p.fields != nil {
		p.fields[p.key] = value
		return
	}
	p.list[p.index] = value
}

// change replaces the value of a place: by one that is often forgotten, by another one of the
// document, or by itself once more in a list.
func (p place) change(how byte, other any) {
	extremes := []any{
		nil, "", "x", 0, 1, -1, 2, 64, 65, 100, 101, math.MaxInt32, math.MinInt32, int64(math.MaxInt64), int64(math.MinInt64), 0.5, 1e300, -1e300, true, false,
		[]any{}, map[string]any{}, "0", "1", "-1", "9E", "1e99", "1Ki", "NaN", "2026-11-21T12:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
	}
	switch kind := int(how) % (len(extremes) + 4); {
	case kind < len(extremes):
		p.set(extremes[kind])
	case kind == len(extremes) && p.fields != nil:
		delete(p.fields, p.key)
	case kind == len(extremes)+1:
		if list, ok := p.get().([]any); ok {
			p.set(append(slices.Clone(list), copied(other)))
		}
	default:
		p.set(copied(other))
	}
}

// copied returns a copy, so that no value contains itself.
func copied(value any) any {
	text, err := json.Marshal(value)
	if err != nil || len(text) > mostCopied {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var same any
	if decoder.Decode(&same) != nil {
		return nil
	}
	return same
}

// EditLines is Edit for a document of which each line is JSON. Lines that are not stay as they are.
func EditLines(document, program []byte) []byte {
	if len(program) < step {
		return document
	}
	lines := bytes.Split(document, []byte("\n"))
	var whole [][]byte
	for _, line := range lines {
		if json.Valid(line) {
			whole = append(whole, line)
		}
	}
	var changed []json.RawMessage
	if json.Unmarshal(Edit(slices.Concat([]byte("["), bytes.Join(whole, []byte(",")), []byte("]")), program), &changed) != nil {
		return document
	}
	var text []byte
	for _, line := range changed {
		text = append(append(text, line...), '\n')
	}
	return text
}
