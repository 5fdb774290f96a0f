// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sbom is pure: it writes which modules and packages an image consists of, as an SPDX
// 2.3 document.
package sbom

import (
	"bytes"
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"

	"falldio.github.io/gpu-controller/hack/release/debian"
)

// Image is an image and what it consists of.
type Image struct {
	Name, Version, Architecture string
	// Digest is that of the image, as in "sha256:…".
	Digest  string
	Created time.Time
	// Program is what Go's toolchain has recorded in the program.
	Program *debug.BuildInfo
	// Packages are the Debian packages with files in the image.
	Packages []debian.Package
	// Suite is the Debian release that they are from.
	Suite string
}

// component is a part of an image.
type component struct{ name, version, purl string }

// Document returns the SPDX document as JSON. It is the same for the same image.
func Document(image *Image) ([]byte, error) {
	const imageID = "Image"
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      fmt.Sprintf("%s-%s-%s", image.Name, image.Version, image.Architecture),
		DocumentNamespace: "https://falldio.github.io/gpu-controller/spdx/" + strings.Replace(image.Digest, ":", "-", 1),
		CreationInfo: &spdx.CreationInfo{
			Created:  image.Created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "gpu-controller/hack/release"}},
		},
		Relationships: []*spdx.Relationship{relationship("DOCUMENT", common.TypeRelationshipDescribe, imageID)},
	}
	oci := component{name: image.Name, version: image.Version, purl: fmt.Sprintf("pkg:oci/%s@%s?arch=%s", image.Name, strings.Replace(image.Digest, ":", "%3A", 1), image.Architecture)}
	document.Packages = append(document.Packages, oci.spdx(imageID))
	for i, part := range image.components() {
		id := fmt.Sprintf("Package-%d", i)
		document.Packages = append(document.Packages, part.spdx(id))
		document.Relationships = append(document.Relationships, relationship(imageID, common.TypeRelationshipContains, id))
	}
	var content bytes.Buffer
	err := spdxjson.Write(document, &content, spdxjson.Indent("  "))
	return content.Bytes(), err
}

func (image *Image) components() []component {
	parts := []component{
		{"stdlib", strings.TrimPrefix(image.Program.GoVersion, "go"), "pkg:golang/stdlib@" + strings.TrimPrefix(image.Program.GoVersion, "go")},
		{image.Program.Main.Path, image.Version, "pkg:golang/" + image.Program.Main.Path + "@" + image.Version},
	}
	for _, module := range image.Program.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		parts = append(parts, component{module.Path, module.Version, "pkg:golang/" + module.Path + "@" + module.Version})
	}
	for i := range image.Packages {
		p := &image.Packages[i]
		parts = append(parts, component{p.Name, p.Version, p.URL(image.Architecture, image.Suite)})
	}
	slices.SortStableFunc(parts, func(a, b component) int { return cmp.Compare(a.purl, b.purl) })
	return parts
}

func (c component) spdx(id string) *spdx.Package {
	return &spdx.Package{
		PackageName: c.name, PackageSPDXIdentifier: common.ElementID(id), PackageVersion: c.version,
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION", PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: c.purl,
		}},
	}
}

func relationship(from, kind, to string) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: common.ElementID(from)}, Relationship: kind,
		RefB: common.DocElementID{ElementRefID: common.ElementID(to)},
	}
}
