// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package blackbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseModulesRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ yaml, want string }{
		"nothing":                            {"", "there are no modules"},
		"no modules":                         {"modules: {}", "there are no modules"},
		"something that is no YAML":          {"modules: [", "yaml: "},
		"an unknown field":                   {"module: {}", "field module not found"},
		"an unknown field of a module":       {"modules: {a: {prober: http, retries: 3}}", "field retries not found"},
		"an unknown field of a prober":       {"modules: {a: {prober: http, http: {follow: true}}}", "field follow not found"},
		"a module without a prober":          {"modules: {a: {timeout: 1s}}", `modules.a.prober: "" is not one of dns, grpc, http, icmp, tcp`},
		"a prober that does not exist":       {"modules: {a: {prober: ftp}}", `modules.a.prober: "ftp" is not one of`},
		"a timeout that is no duration":      {"modules: {a: {prober: http, timeout: x}}", "cannot unmarshal"},
		"a negative timeout":                 {"modules: {a: {prober: http, timeout: -1s}}", "modules.a.timeout: must not be negative"},
		"a pattern that can't be read":       {"modules: {a: {prober: http, http: {fail_if_body_matches_regexp: ['(']}}}", "Could not compile regular expression"},
		"a module of dns without a question": {"modules: {a: {prober: dns, dns: {query_type: A}}}", "query name must be set"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := ParseModules([]byte(test.yaml)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestDefaultModules(t *testing.T) {
	t.Parallel()
	modules, err := DefaultModules()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := modules.Names(), "http_2xx, icmp, tcp_connect"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !modules.Has("icmp") || modules.Has("dns") {
		t.Error("Has differs from Names")
	}
}

func TestLoadModulesNamesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "modules.yaml")
	if _, err := LoadModules(path); err == nil || !strings.Contains(err.Error(), "reading the modules: open "+path) {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(path, []byte("x: y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadModules(path); err == nil || !strings.Contains(err.Error(), path+": ") {
		t.Errorf("a file with a mistake: %v", err)
	}
}
