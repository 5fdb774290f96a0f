// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fuzzjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/fuzzjson"
)

const document = `{"a":[1,{"b":"x"}],"c":null}`

func TestEdit(t *testing.T) {
	t.Parallel()
	// The places are: 0 the document, 1 a, 2 a[0], 3 a[1], 4 b, 5 c.
	const remove, add, replace = 32, 33, 34
	tests := map[string]struct {
		document string
		program  []byte
		want     string
	}{
		"an empty program changes nothing":   {document, nil, document},
		"what is no JSON stays":              {"{", []byte{0, 0, 0, 0, 0}, "{"},
		"a value becomes an extreme one":     {document, []byte{0, 2, 13, 0, 0}, `{"a":[9223372036854775807,{"b":"x"}],"c":null}`},
		"a field is removed":                 {document, []byte{0, 4, remove, 0, 0}, `{"a":[1,{}],"c":null}`},
		"a list gets another value":          {document, []byte{0, 1, add, 0, 4}, `{"a":[1,{"b":"x"},"x"],"c":null}`},
		"a value becomes another one's copy": {document, []byte{0, 5, replace, 0, 0}, `{"a":[1,{"b":"x"}],"c":{"a":[1,{"b":"x"}],"c":null}}`},
		"two changes":                        {document, []byte{0, 5, 3, 0, 0, 0, 2, 1, 0, 0}, `{"a":["",{"b":"x"}],"c":0}`},
		"places are counted round and round": {document, []byte{0, 6 + 2, 0, 0, 0}, `{"a":[null,{"b":"x"}],"c":null}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(fuzzjson.Edit([]byte(test.document), test.program)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestEditLines(t *testing.T) {
	t.Parallel()
	const text = "{\"a\":1}\n{\"b\":2}\n"
	if got := string(fuzzjson.EditLines([]byte(text), []byte{0, 4, 1, 0, 0})); got != "{\"a\":1}\n{\"b\":\"\"}\n" {
		t.Errorf("%q", got)
	}
	if got := string(fuzzjson.EditLines([]byte(text), nil)); got != text {
		t.Errorf("%q", got)
	}
}

// FuzzEdit runs any program on any document: what was JSON is JSON, and is bounded.
func FuzzEdit(f *testing.F) {
	f.Add([]byte(document), []byte(strings.Repeat("\x00\x01\x21\x00\x00", 40)))
	f.Fuzz(func(t *testing.T, text, program []byte) {
		changed := fuzzjson.Edit(text, program)
		if json.Valid(text) && !json.Valid(changed) {
			t.Errorf("%q became %q", text, changed)
		}
		if len(changed) > 8*len(text)+16*(4<<10) { // a byte of text may be escaped with six
			t.Errorf("%d bytes became %d", len(text), len(changed))
		}
	})
}
