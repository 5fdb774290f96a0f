// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAssignmentIsSortedAndHasEachDeviceOnce(t *testing.T) {
	t.Parallel()
	assignment := Assignment{}
	assignment.Add("main", "falldio.com/gpu", "GPU-c", "GPU-a")
	assignment.Add("init", "falldio.com/rdma", "rdma-0")
	assignment.Add("main", "falldio.com/gpu", "GPU-b", "GPU-a")
	assignment.Add("main", "falldio.com/rdma", "rdma-1")
	got, err := assignment.String()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":"v1","containers":{` +
		`"init":{"falldio.com/rdma":["rdma-0"]},` +
		`"main":{"falldio.com/gpu":["GPU-a","GPU-b","GPU-c"],"falldio.com/rdma":["rdma-1"]}}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	parsed, err := ParseAssignment(got)
	if err != nil {
		t.Fatal(err)
	}
	assignment.Version = Version
	if diff := cmp.Diff(&assignment, parsed); diff != "" {
		t.Errorf("after a round trip (-want +got):\n%s", diff)
	}
}

func TestParseAssignmentIgnoresFieldsThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	got, err := ParseAssignment(`{"version":"v1","node":"n1","containers":{"main":{"falldio.com/gpu":["GPU-a"]}}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := &Assignment{Version: Version, Containers: map[string]map[string][]string{"main": {"falldio.com/gpu": {"GPU-a"}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("assignment (-want +got):\n%s", diff)
	}
}

func TestAnAssignmentMaySayWhatLimitsAShare(t *testing.T) {
	t.Parallel()
	const text = `{"version":"v1","containers":{"main":{"falldio.com/gpu-percent":["GPU-a"]}},"enforcement":{"main":"none"}}`
	assignment, err := ParseAssignment(text)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := assignment.String(); got != text || err != nil {
		t.Errorf("got %s, error %v", got, err)
	}
	if assignment.Enforcement["main"] != EnforcementNone {
		t.Errorf("enforcement %v", assignment.Enforcement)
	}
}

func TestParseAssignmentRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want string }{
		"nothing":                      {"", "annotation falldio.com/gpu-assignment: is empty"},
		"a list of UUIDs":              {"GPU-a,GPU-b", "annotation falldio.com/gpu-assignment: invalid character 'G'"},
		"no version":                   {"{}", `annotation falldio.com/gpu-assignment: version is "", this program knows "v1"`},
		"a version of the future":      {`{"version":"v9"}`, `annotation falldio.com/gpu-assignment: version is "v9", this program knows "v1"`},
		"a device instead of a list":   {`{"version":"v1","containers":{"main":{"falldio.com/gpu":"GPU-a"}}}`, "cannot unmarshal string"},
		"more than any annotation has": {strings.Repeat("x", MaxBytes+1), "annotation falldio.com/gpu-assignment: has 262145 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseAssignment(test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
			if got != nil {
				t.Errorf("got %v beside the error", got)
			}
		})
	}
}

func FuzzParseAssignment(f *testing.F) {
	f.Add(`{"version":"v1","containers":{"main":{"falldio.com/gpu":["GPU-b","GPU-a"]},"init":null}}`)
	f.Add(`{"version":"v1","containers":{"\ud800":{"<":[null]}}}`)
	f.Add(`{"version":"v1","containers":null,"enforcement":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := ParseAssignment(text)
		if err != nil {
			return
		}
		again, err := parsed.String()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if len(again) > MaxBytes {
			return // escaping makes it longer than the limit
		}
		reparsed, err := ParseAssignment(again)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, again, err)
		}
		if diff := cmp.Diff(parsed, reparsed); diff != "" {
			t.Errorf("%q became %q:\n%s", text, again, diff)
		}
		parsed.Add("main", "falldio.com/gpu", "GPU-z") // must not panic either
	})
}

func TestSameDevices(t *testing.T) {
	t.Parallel()
	const one = `{"version":"v1","containers":{"c":{"falldio.com/gpu":["GPU-a","GPU-b"]}}}`
	tests := map[string]struct {
		a, b string
		want bool
	}{
		"equal values":               {one, one, true},
		"neither says anything":      {"", "", true},
		"one says what is enforced":  {one, `{"version":"v1","containers":{"c":{"falldio.com/gpu":["GPU-a","GPU-b"]}},"enforcement":{"c":"none"}}`, true},
		"other devices":              {one, `{"version":"v1","containers":{"c":{"falldio.com/gpu":["GPU-a","GPU-c"]}}}`, false},
		"another container has them": {one, `{"version":"v1","containers":{"d":{"falldio.com/gpu":["GPU-a","GPU-b"]}}}`, false},
		"one says nothing":           {one, "", false},
		"one is of another version":  {one, `{"version":"v2","containers":{"c":{"falldio.com/gpu":["GPU-a","GPU-b"]}}}`, false},
		"the same nonsense":          {"nonsense", "nonsense", true},
		"nonsense is no devices":     {"nonsense", "other nonsense", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := SameDevices(test.a, test.b); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}
