// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	spdxjson "github.com/spdx/tools-golang/json"

	"falldio.github.io/gpu-controller/hack/release/debian"
)

// TestADocumentListsModulesAndPackages reads the document again, as a scanner does, and looks
// for the addresses by which vulnerabilities are found.
func TestADocumentListsModulesAndPackages(t *testing.T) {
	t.Parallel()
	content, err := Document(&Image{
		Name: "nodeagent", Version: "v1", Architecture: "arm64", Digest: "sha256:00", Created: time.Unix(1_700_000_000, 0),
		Program: &debug.BuildInfo{
			GoVersion: "go1.26.1", Main: debug.Module{Path: "falldio.github.io/gpu-controller"},
			Deps: []*debug.Module{
				{Path: "k8s.io/api", Version: "v0.37.1"},
				{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new", Version: "v2.0.0"}},
			},
		},
		Packages: []debian.Package{{Name: "libc6", Version: "2.36-9"}}, Suite: "bookworm",
	})
	if err != nil {
		t.Fatal(err)
	}
	document, err := spdxjson.Read(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range document.Packages {
		got = append(got, p.PackageExternalReferences[0].Locator)
	}
	want := []string{
		"pkg:oci/nodeagent@sha256%3A00?arch=arm64",
		"pkg:deb/debian/libc6@2.36-9?arch=arm64&distro=bookworm",
		"pkg:golang/example.com/new@v2.0.0",
		"pkg:golang/falldio.github.io/gpu-controller@v1",
		"pkg:golang/k8s.io/api@v0.37.1",
		"pkg:golang/stdlib@1.26.1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the packages (-want +got):\n%s", diff)
	}
	if len(document.Relationships) != len(want) {
		t.Errorf("%d relationships, want one of each package", len(document.Relationships))
	}
}
