// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// FuzzAnnotation corrects any annotation. What is written can be read by everybody, says what the
// kubelet has allocated, keeps what it does not know, and is not corrected twice.
func FuzzAnnotation(f *testing.F) {
	f.Add(`{"version":"v1","containers":{"main":{"falldio.com/gpu":["GPU-b","GPU-a"]},"init":null},"later":{"a":1}}`, "main", "GPU-a GPU-c", "mps", []byte(nil))
	f.Add(`{"version":"v9","containers":[1]}`, "", "", "", []byte(nil))
	f.Add(`{"version":7,"containers":{"main":"x"},"enforcement":[]}`, "main", "GPU-a GPU-a", "none", []byte(nil))
	f.Add(`{"containers":{"main":{"falldio.com/gpu":"GPU-a","falldio.com/rdma":[1]}},"containerS":{}}`, "main", "", "dmem", []byte(nil))
	f.Fuzz(func(t *testing.T, value, container, devices, enforcement string, edits []byte) {
		for _, text := range []string{container, devices, enforcement} {
			if !utf8.ValidString(text) {
				return // neither the kubelet nor the API server has such text
			}
		}
		value = string(fuzzjson.Edit([]byte(value), edits))
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(value)+len(devices), func() {
			a := parse(value)
			if a.isUnknownVersion() {
				return // it is left alone
			}
			const resource = "falldio.com/gpu"
			ids := strings.Fields(devices)
			a.set(container, resource, ids)
			a.enforce(map[string]string{container: enforcement})
			written := a.String()
			again := parse(written)
			if got, ok := again.get(container, resource); !ok || !slices.Equal(got, normalized(ids)) {
				t.Errorf("%q became %q, which says %q of %q", value, written, got, container)
			}
			if again.set(container, resource, ids) || again.enforce(map[string]string{container: enforcement}) || again.String() != written {
				t.Errorf("%q is corrected again, to %q", written, again)
			}
			if !json.Valid([]byte(written)) {
				t.Errorf("%q became %q, which is no JSON", value, written)
			}
			checkOthers(t, a, written, container, normalized(ids))
		})
	})
}

// checkOthers fails the test if the scheduler reads an annotation differently.
func checkOthers(t *testing.T, a *annotation, written, container string, ids []string) {
	t.Helper()
	read, err := inventory.ParseAssignment(written)
	if err != nil {
		return // because of what others have written, and what is not the agent's to mend
	}
	if got := read.Containers[container]["falldio.com/gpu"]; len(ids) > 0 && !slices.Equal(got, ids) {
		t.Errorf("the scheduler reads %q, the agent has written %q: %s", got, ids, written)
	}
	for name := range a.fields {
		if !strings.Contains(written, name) && cmp.Equal(name, strings.ToValidUTF8(name, "")) && !strings.ContainsAny(name, "\"\\\n\t\r<>&\u2028\u2029\x7f") {
			t.Errorf("the field %q is lost: %s", name, written)
		}
	}
}
