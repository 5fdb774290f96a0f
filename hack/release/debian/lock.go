// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package debian fetches and unpacks the Debian packages whose files the images contain.
package debian

import (
	_ "embed"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Lock names the packages by version and digest. Its mirrors are asked one after the other.
type Lock struct {
	// Suite is Debian's name of the release.
	Suite string `json:"suite"`
	// Mirrors are the addresses of Debian archives, without a slash at the end.
	Mirrors  []string  `json:"mirrors"`
	Packages []Package `json:"packages"`
}

// Package is a binary package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Keep are the beginnings of the paths that the images contain; everything if there are
	// none. The copyright is always kept.
	Keep []string `json:"keep"`
	// Archives are the package's archives, by architecture as Go names it.
	Archives map[string]Archive `json:"archives"`
}

// Archive is a .deb file.
type Archive struct {
	// Path is that below a mirror.
	Path string `json:"path"`
	// SHA256 is the digest in hexadecimal digits.
	SHA256 string `json:"sha256"`
}

//go:embed lock.yaml
var lock []byte

// ReadLock returns the lock in this folder.
func ReadLock() (*Lock, error) {
	var l Lock
	if err := yaml.UnmarshalStrict(lock, &l); err != nil {
		return nil, fmt.Errorf("lock.yaml: %w", err)
	}
	return &l, nil
}

// URL returns the name of the package for an architecture as a package URL
// (https://github.com/package-url/purl-spec). It names no mirror.
func (p *Package) URL(architecture, suite string) string {
	return fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=%s", p.Name, p.Version, architecture, suite)
}

// keeps reports whether a path of the package is part of the images.
func (p *Package) keeps(path string) bool {
	if path == "usr/share/doc/"+p.Name+"/copyright" || len(p.Keep) == 0 {
		return true
	}
	for _, prefix := range p.Keep {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}
