// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// target parses what must be a target; a host alone is one of dns.
func target(t *testing.T, kind Kind, text string) Target {
	t.Helper()
	defaultPort := ""
	if kind == HostPort && !strings.Contains(text, ":") {
		defaultPort = "53"
	}
	parsed, err := Parse(kind, text, defaultPort)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func parseList(t *testing.T, text string) *List {
	t.Helper()
	list, err := ParseList([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestListAllows(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		list   string
		kind   Kind
		target string
		want   bool
	}{
		"an empty list permits nothing":                     {"[]", URL, "http://a.example.com", false},
		"a host permits its web site":                       {"[a.example.com]", URL, "http://a.example.com/x?y=z", true},
		"a host permits its encrypted web site":             {"[a.example.com]", URL, "https://a.example.com", true},
		"a host permits a ping":                             {"[a.example.com]", Host, "a.example.com", true},
		"a host permits a question to its name server":      {"[a.example.com]", HostPort, "a.example.com", true},
		"a host permits no other port of the web":           {"[a.example.com]", URL, "http://a.example.com:8080", false},
		"a host permits no port that is only a number":      {"[a.example.com]", HostPort, "a.example.com:80", false},
		"a port permits this port":                          {`["a.example.com:5432"]`, HostPort, "a.example.com:5432", true},
		"a port permits no other":                           {`["a.example.com:5432"]`, HostPort, "a.example.com:22", false},
		"a port permits no ping":                            {`["a.example.com:5432"]`, Host, "a.example.com", false},
		"a port permits a web site there":                   {`["a.example.com:80"]`, URL, "a.example.com", true},
		"a star permits every port":                         {`["a.example.com:*"]`, HostPort, "a.example.com:22", true},
		"a star permits hosts underneath":                   {`["*.example.com"]`, URL, "http://a.b.example.com", true},
		"a star does not permit the host above":             {`["*.example.com"]`, URL, "http://example.com", false},
		"a star does not permit a name that ends alike":     {`["*.example.com"]`, URL, "http://evilexample.com", false},
		"a star does not permit a name that begins alike":   {`["*.example.com"]`, URL, "http://a.example.com.evil.org", false},
		"a host does not permit those underneath":           {"[example.com]", URL, "http://a.example.com", false},
		"a URL permits itself":                              {`["https://a.example.com/health?deep=1"]`, URL, "https://a.example.com/health?deep=1", true},
		"a URL permits itself however it is written":        {`["https://A.example.com:443"]`, URL, "https://a.EXAMPLE.com./", true},
		"a URL permits no other path":                       {`["https://a.example.com/health"]`, URL, "https://a.example.com/admin", false},
		"a URL permits no other query":                      {`["https://a.example.com/health"]`, URL, "https://a.example.com/health?x", false},
		"a URL permits no other scheme":                     {`["https://a.example.com"]`, URL, "http://a.example.com", false},
		"a URL permits no connection but by its own":        {`["http://a.example.com"]`, HostPort, "a.example.com:80", false},
		"an address permits itself":                         {"[10.0.0.1]", URL, "http://10.0.0.1", true},
		"an address permits itself as a mapped one":         {"[10.0.0.1]", URL, "http://[::ffff:10.0.0.1]", true},
		"an IPv6 address permits itself however it is long": {`["[fd00::1]:443"]`, HostPort, "[fd00:0:0::1]:443", true},
		"an IPv6 address without a port":                    {`["fd00::1"]`, URL, "http://[fd00::1]/", true},
		"a host with a user in front is another host":       {"[a.example.com]", URL, "http://a.example.com.evil.org/@a.example.com", false},
		"the second entry counts as well":                   {"[a.example.com, b.example.com]", URL, "http://b.example.com", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := parseList(t, test.list).Allows(target(t, test.kind, test.target)); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind         Kind
		target, want string
	}{
		"nothing":                      {URL, "", "there is no target"},
		"a target without end":         {URL, strings.Repeat("x", MaxTargetBytes+1), "longer than 2048 bytes"},
		"a file":                       {URL, "file:///etc/passwd", `the scheme "file" is neither http nor https`},
		"a scheme in capitals is fine": {URL, "gopher://x", `the scheme "gopher"`},
		"a user before the host":       {URL, "http://a.example.com@evil.org", "must not have a user"},
		"a URL without a host":         {URL, "http://", `"" is no host`},
		"a host with a space":          {URL, "http://a b", "is no URL"},
		"a host with a line break":     {Host, "a\nb", "is no host"},
		"a zone":                       {Host, "fe80::1%eth0", "must not have a zone"},
		"a port that is a name":        {HostPort, "a.example.com:ssh", `"ssh" is no port`},
		"port 0":                       {HostPort, "a.example.com:0", `"0" is no port`},
		"a port of six digits":         {URL, "http://a.example.com:123456", `"123456" is no port`},
		"a host without its port":      {HostPort, "a.example.com", "must be HOST:PORT"},
		"a path behind a port":         {HostPort, "a.example.com:80/x", `"80/x" is no port`},
		"a path behind a host":         {Host, "a.example.com/x", "is no host"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Parse(test.kind, test.target, ""); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestParseListRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ list, want string }{
		"an object instead of a list":     {"{targets: []}", "cannot unmarshal object"},
		"everything":                      {`["*"]`, `target 1, "*": a star stands for`},
		"a star within a name":            {`[a.example.com, "a*.example.com"]`, `target 2, "a*.example.com": a star stands for`},
		"a star for the end of a name":    {`["example.*"]`, "a star stands for"},
		"a star for all ports everywhere": {`["*:443"]`, "a star stands for"},
		"a port that is none":             {`["a.example.com:https"]`, `"https" is no port`},
		"a file":                          {`["file:///etc/passwd"]`, `the scheme "file"`},
		"nothing":                         {`[""]`, "is no host"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := ParseList([]byte(test.list)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}

// What is probed must be what was checked: the text that a prober gets is read
// as the same target again.
func TestTargetsAreReadAlikeTwice(t *testing.T) {
	t.Parallel()
	for kind, texts := range map[Kind][]string{
		URL:      {"a.example.com", "HTTP://A.example.com:80/x/../y?z=http://b", "https://[fd00::1]:8443", "http://10.0.0.1:8080/%2e%2e/", "a/b"},
		HostPort: {"A.example.com.:443", "[fd00::1]:53", "10.0.0.1:1"},
		Host:     {"A.example.com.", "fd00:0::1", "10.0.0.1"},
	} {
		for _, text := range texts {
			first := target(t, kind, text)
			if again := target(t, kind, first.String()); again.String() != first.String() || again.host != first.host || again.port != first.port {
				t.Errorf("%s: %+v, again: %+v", text, first, again)
			}
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "targets.yaml")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "reading the allowed targets: open "+path) {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(path, []byte(`["*"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+": target 1") {
		t.Errorf("a file with a mistake: %v", err)
	}
}
