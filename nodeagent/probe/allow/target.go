// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allow decides what an agent may probe. Without such a list everybody
// who reaches an agent could scan the network from its node.
package allow

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// MaxTargetBytes is more than any address needs.
const MaxTargetBytes = 2048

// Kind is what a target looks like.
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

// Target is something to probe, taken apart. What is checked and what is probed
// are made of the same parts, so that no second reading of the text can find
// another host in it.
type Target struct {
	kind Kind
	// host is a lower-case name without a dot at its end, or an address.
	host string
	// port is a number; empty for the kind Host.
	port string
	// usual is the port that is meant when none is given; empty if there is none.
	usual string
	// scheme and path are those of a URL; path is with the query.
	scheme, path string
}

// Parse takes a target apart. usual is the port of a HostPort that has none;
// empty if it must have one.
func Parse(kind Kind, text, usual string) (Target, error) {
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
		target, err = parseHostPort(text, usual)
	case Host:
		target.kind = Host
		target.host, err = parseHost(text)
	}
	if err != nil {
		return Target{}, fmt.Errorf("target %q: %w", text, err)
	}
	return target, nil
}

// String is the target as a prober takes it.
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

// address is the host of a URL, with the port if that is not the usual one.
func (t Target) address() string {
	switch {
	case t.port != t.usual:
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

// usualPorts are the ports of the schemes.
func usualPort(scheme string) string {
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
	t := Target{kind: URL, scheme: parsed.Scheme, port: parsed.Port(), usual: usualPort(parsed.Scheme), path: parsed.RequestURI()}
	if t.port == "" {
		t.port = t.usual
	}
	if t.host, err = parseHost(parsed.Hostname()); err != nil {
		return Target{}, err
	}
	return t, checkPort(t.port)
}

func parseHostPort(text, usual string) (Target, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		if usual == "" {
			return Target{}, errors.New("must be HOST:PORT")
		}
		host, port = strings.Trim(text, "[]"), usual
	}
	t := Target{kind: HostPort, port: port, usual: usual}
	if t.host, err = parseHost(host); err != nil {
		return Target{}, err
	}
	return t, checkPort(port)
}

// names are the names of hosts, in lower case, with underscores: some use them.
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
