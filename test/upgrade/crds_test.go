// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// crds returns the CustomResourceDefinitions of a version, by their names.
func (v *version) crds(t *testing.T) map[string]*apiextensions.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(v.manifests("crds", "*_*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the CRDs of the %s version: %v, %v", v.name, files, err)
	}
	all := map[string]*apiextensions.CustomResourceDefinition{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensions.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[crd.Name] = crd
	}
	return all
}

// lostFields returns what the CRDs of one version have and those of another have not: kinds, versions that are
// served, and fields. The API server drops what is stored in such a field with the next write.
func lostFields(before, after map[string]*apiextensions.CustomResourceDefinition) []string {
	var lost []string
	for name, crd := range before {
		next := after[name]
		if next == nil {
			lost = append(lost, name)
			continue
		}
		for i := range crd.Spec.Versions {
			version := &crd.Spec.Versions[i]
			at := slices.IndexFunc(next.Spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool {
				return v.Name == version.Name && (v.Served || !version.Served)
			})
			path := name + " " + version.Name
			if at < 0 {
				lost = append(lost, path)
				continue
			}
			lost = append(lost, lostProperties(path, version.Schema.OpenAPIV3Schema, next.Spec.Versions[at].Schema.OpenAPIV3Schema)...)
		}
	}
	slices.Sort(lost)
	return lost
}

// takesValuesOf reports whether the values of one schema are of a type of another one.
func takesValuesOf(before, after *apiextensions.JSONSchemaProps) bool {
	return before.Type == after.Type || after.XIntOrString && (before.Type == "integer" || before.Type == "string")
}

// lostProperties returns the fields that one schema has and another one has not, with their paths.
func lostProperties(path string, before, after *apiextensions.JSONSchemaProps) []string {
	var lost []string
	if !takesValuesOf(before, after) {
		lost = append(lost, path+" as "+before.Type)
	}
	for name := range before.Properties {
		was := before.Properties[name]
		is, found := after.Properties[name]
		if !found {
			if after.XPreserveUnknownFields == nil || !*after.XPreserveUnknownFields {
				lost = append(lost, path+"."+name)
			}
			continue
		}
		lost = append(lost, lostProperties(path+"."+name, &was, &is)...)
	}
	if before.Items != nil && after.Items != nil && before.Items.Schema != nil && after.Items.Schema != nil {
		lost = append(lost, lostProperties(path+"[]", before.Items.Schema, after.Items.Schema)...)
	}
	if before.AdditionalProperties != nil && after.AdditionalProperties != nil && before.AdditionalProperties.Schema != nil && after.AdditionalProperties.Schema != nil {
		lost = append(lost, lostProperties(path+"[]", before.AdditionalProperties.Schema, after.AdditionalProperties.Schema)...)
	}
	return lost
}

func TestAFieldThatIsGoneIsFound(t *testing.T) {
	t.Parallel()
	schema := func(fields ...string) *apiextensions.JSONSchemaProps {
		entry := &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{}}
		for _, field := range fields {
			entry.Properties[field] = apiextensions.JSONSchemaProps{Type: "string"}
		}
		list := apiextensions.JSONSchemaProps{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: entry}}
		return &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"list": list}}
	}
	crds := func(root *apiextensions.JSONSchemaProps) map[string]*apiextensions.CustomResourceDefinition {
		return map[string]*apiextensions.CustomResourceDefinition{"tasks": {Spec: apiextensions.CustomResourceDefinitionSpec{
			Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: root}}},
		}}}
	}
	number := schema("a", "b")
	number.Properties["list"].Items.Schema.Properties["b"] = apiextensions.JSONSchemaProps{Type: "integer"}
	either := schema("a", "b")
	either.Properties["list"].Items.Schema.Properties["b"] = apiextensions.JSONSchemaProps{XIntOrString: true}
	for name, test := range map[string]struct {
		after map[string]*apiextensions.CustomResourceDefinition
		want  []string
	}{
		"one field more":          {crds(schema("a", "b", "c")), nil},
		"one field less":          {crds(schema("a")), []string{"tasks v1.list[].b"}},
		"a field of another type": {crds(number), []string{"tasks v1.list[].b as string"}},
		"a field of more types":   {crds(either), nil},
		"no such kind":            {nil, []string{"tasks"}},
	} {
		if got := lostFields(crds(schema("a", "b")), test.after); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v is lost, want %v", name, got, test.want)
		}
	}
}
