// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allow

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/pkg/configfile"
)

// List is an allowlist of targets. An empty one allows nothing.
type List struct {
	entries []entry
}

// entry allows a URL, or ports of a host.
type entry struct {
	// exact is the URL; if empty, the other fields apply.
	exact string
	// host is a name or an address; with suffix, the name's subdomains match instead.
	host   string
	suffix bool
	// port is a number, "*" for all, or "" for the default one.
	port string
}

// anyPort allows all ports of a host.
const anyPort = "*"

// Load loads a list from a YAML file.
func Load(path string) (*List, error) { return configfile.Load("the allowed targets", path, ParseList) }

// ParseList parses a list from YAML: strings, each a URL or a host as described in
// docs/network-speed.md.
func ParseList(data []byte) (*List, error) {
	var texts []string
	if err := yaml.UnmarshalStrict(data, &texts); err != nil {
		return nil, err
	}
	list := &List{}
	for i, text := range texts {
		one, err := parseEntry(text)
		if err != nil {
			return nil, fmt.Errorf("target %d, %q: %w", i+1, text, err)
		}
		list.entries = append(list.entries, one)
	}
	return list, nil
}

func parseEntry(text string) (entry, error) {
	if strings.Contains(text, "://") {
		target, err := parseURL(text)
		return entry{exact: target.String()}, err
	}
	one := entry{}
	text, one.port = cutPort(text)
	if one.port != "" && one.port != anyPort {
		if err := checkPort(one.port); err != nil {
			return entry{}, err
		}
	}
	if rest, found := strings.CutPrefix(text, "*."); found {
		text, one.suffix = rest, true
	}
	if strings.Contains(text, "*") {
		return entry{}, errors.New("a star stands for the first labels of a name, *.example.com, or for all ports, example.com:*")
	}
	var err error
	one.host, err = parseHost(strings.Trim(text, "[]"))
	return one, err
}

// cutPort splits an entry into host and port. An IPv6 address with a port is in brackets.
func cutPort(text string) (host, port string) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 || strings.Count(text, ":") > 1 && !strings.HasSuffix(text[:colon], "]") {
		return text, ""
	}
	return text[:colon], text[colon+1:]
}

// Empty reports whether the list allows nothing.
func (l *List) Empty() bool { return len(l.entries) == 0 }

// Allows reports whether the target may be probed.
func (l *List) Allows(target Target) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool { return e.allows(target) })
}

func (e *entry) allows(target Target) bool {
	if e.exact != "" {
		return target.kind == URL && e.exact == target.String()
	}
	return e.hasHost(target.host) && e.hasPort(target)
}

func (e *entry) hasHost(host string) bool {
	if e.suffix {
		return strings.HasSuffix(host, "."+e.host)
	}
	return host == e.host
}

func (e *entry) hasPort(target Target) bool {
	return e.port == anyPort || target.port == cmp.Or(e.port, target.defaultPort)
}
