// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provenance is pure: it writes from what and how a release was built, as an in-toto
// statement (https://in-toto.io/Statement/v1) with a predicate of SLSA
// (https://slsa.dev/spec/v1.0/provenance). It has no time, so that the same commit gives the
// same statement, and no signature: whoever publishes a release signs it.
package provenance

import "encoding/json"

// Artifact is something with a digest.
type Artifact struct {
	// Name is the path of a file in the release.
	Name string `json:"name,omitempty"`
	// URI is what an input is.
	URI string `json:"uri,omitempty"`
	// Digest maps algorithms to digests in hexadecimal digits; nil if there is none.
	Digest map[string]string `json:"digest,omitempty"`
}

// Build is how a release was built.
type Build struct {
	// Parameters are what the caller chose, by name.
	Parameters map[string]string
	// Inputs are what it was built from: the commit and the Debian packages.
	Inputs []Artifact
	// GoVersion is that of the toolchain.
	GoVersion string
	// Outputs are the files of the release.
	Outputs []Artifact
}

type statement struct {
	Type          string     `json:"_type"`
	Subject       []Artifact `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type predicate struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	ResolvedDependencies []Artifact        `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder builder `json:"builder"`
}

type builder struct {
	ID      string            `json:"id"`
	Version map[string]string `json:"version"`
}

// Statement returns the statement as JSON.
func Statement(build *Build) ([]byte, error) {
	content, err := json.MarshalIndent(statement{
		Type: "https://in-toto.io/Statement/v1", Subject: build.Outputs, PredicateType: "https://slsa.dev/provenance/v1",
		Predicate: predicate{
			BuildDefinition: buildDefinition{
				BuildType:            "https://falldio.github.io/gpu-controller/make-release/v1",
				ExternalParameters:   build.Parameters,
				ResolvedDependencies: build.Inputs,
			},
			RunDetails: runDetails{Builder: builder{
				ID: "https://falldio.github.io/gpu-controller/hack/release", Version: map[string]string{"go": build.GoVersion},
			}},
		},
	}, "", "  ")
	return append(content, '\n'), err
}
