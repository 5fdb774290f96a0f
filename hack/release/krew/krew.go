// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package krew is pure: it writes the manifest with which krew, kubectl's plugin manager, installs kubectl-gputask.
package krew

import (
	_ "embed"

	"sigs.k8s.io/yaml"
)

//go:embed gputask.yaml
var common []byte

// Archive is an archive of the plugin for one platform.
type Archive struct {
	OS, Architecture string
	// URL is where it can be downloaded, and SHA256 its digest.
	URL, SHA256 string
	// Files are in the archive, the program first.
	Files []string
}

type platform struct {
	Selector selector `json:"selector"`
	URI      string   `json:"uri"`
	SHA256   string   `json:"sha256"`
	Bin      string   `json:"bin"`
	Files    []file   `json:"files"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type file struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Manifest returns the manifest of a version.
func Manifest(version string, archives []Archive) ([]byte, error) {
	var manifest struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       map[string]any `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(common, &manifest); err != nil {
		return nil, err
	}
	platforms := make([]platform, 0, len(archives))
	for i := range archives {
		platforms = append(platforms, archives[i].platform())
	}
	manifest.Spec["version"], manifest.Spec["platforms"] = version, platforms
	return yaml.Marshal(manifest)
}

func (a *Archive) platform() platform {
	p := platform{
		Selector: selector{MatchLabels: map[string]string{"os": a.OS, "arch": a.Architecture}},
		URI:      a.URL, SHA256: a.SHA256, Bin: a.Files[0],
	}
	for _, name := range a.Files {
		p.Files = append(p.Files, file{From: name, To: "."})
	}
	return p
}
