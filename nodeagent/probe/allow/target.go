// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allow decides what an agent may probe. Without an allowlist every client of an agent
// could scan the network from its node.
package allow

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// MaxTargetBytes is the maximum length of a target.
const MaxTargetBytes = 2048

// Kind is the form of a target.
type Kind int

// The kinds of targets.
const (
	// URL is a web address; without a scheme it is http.
	URL Kind = iota
	// HostPort is a host with a port.
	HostPort
	// Host is a host alone.
	Host
)

// Target is a parsed target. The check and the probe use the same parts, so that no second
// parser can find another host in the text.
type Target struct {
	kind Kind
	// host is a lower-case name without a trailing dot, or an address.
	host string
	// port is a number; empty for the kind Host.
	port string
	// defaultPort is the port when none is given; empty if there is no default.
	defaultPort string
	// scheme and path are those of a URL; path includes the query.
	scheme, path string
}

// Parse parses a target. defaultPort is the port of a HostPort without one; empty if it must
// have one.
func Parse(kind Kind, text, defaultPort string) (Target, error) {
	if text == "" {
		return Target{}, errors.New("there is no target")
	}
	if len(text) > MaxTargetBytes {
		return Target{}, fmt.Errorf("the target is longer than %d bytes", MaxTargetBytes)
	}
	var target Target
	var err error
	switch kind {
	case URL:
		target, err = parseURL(text)
	case HostPort:
		target, err = parseHostPort(text, defaultPort)
	case Host:
		target.kind = Host
		target.host, err = parseHost(text)
	}
	if err != nil {
		return Target{}, fmt.Errorf("target %q: %w", text, err)
	}
	return target, nil
}

// String returns the target in the form that probers take.
func (t Target) String() string {
	switch t.kind {
	case URL:
		return t.scheme + "://" + t.address() + t.path
	case HostPort:
		return net.JoinHostPort(t.host, t.port)
	default:
		return t.host
	}
}

// address returns the host of a URL, with the port if it is not the default one.
func (t Target) address() string {
	switch {
	case t.port != t.defaultPort:
		return net.JoinHostPort(t.host, t.port)
	case strings.Contains(t.host, ":"):
		return "[" + t.host + "]"
	default:
		return t.host
	}
}

const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"
)

// schemePort returns the default port of a scheme.
func schemePort(scheme string) string {
	if scheme == schemeHTTPS {
		return "443"
	}
	return "80"
}

func parseURL(text string) (Target, error) {
	if !strings.Contains(text, "://") {
		text = schemeHTTP + "://" + text
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return Target{}, errors.New("is no URL")
	}
	switch {
	case parsed.Scheme != schemeHTTP && parsed.Scheme != schemeHTTPS:
		return Target{}, fmt.Errorf("the scheme %q is neither http nor https", parsed.Scheme)
	case parsed.User != nil:
		return Target{}, errors.New("must not have a user")
	}
	t := Target{kind: URL, scheme: parsed.Scheme, defaultPort: schemePort(parsed.Scheme), path: parsed.RequestURI()}
	t.port = cmp.Or(parsed.Port(), t.defaultPort)
	if t.host, err = parseHost(parsed.Hostname()); err != nil {
		return Target{}, err
	}
	return t, checkPort(t.port)
}

func parseHostPort(text, defaultPort string) (Target, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		if defaultPort == "" {
			return Target{}, errors.New("must be HOST:PORT")
		}
		host, port = strings.Trim(text, "[]"), defaultPort
	}
	t := Target{kind: HostPort, port: port, defaultPort: defaultPort}
	if t.host, err = parseHost(host); err != nil {
		return Target{}, err
	}
	return t, checkPort(port)
}

// names matches host names in lower case, including underscores, which some use.
var names = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

func parseHost(text string) (string, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		if address.Zone() != "" {
			return "", errors.New("must not have a zone")
		}
		return address.Unmap().String(), nil
	}
	host := strings.TrimSuffix(strings.ToLower(text), ".")
	if !names.MatchString(host) {
		return "", fmt.Errorf("%q is no host", text)
	}
	return host, nil
}

func checkPort(port string) error {
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return fmt.Errorf("%q is no port", port)
	}
	return nil
}
