// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package krew

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestTheManifestHasWhatKrewRequires: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest lists the fields.
func TestTheManifestHasWhatKrewRequires(t *testing.T) {
	t.Parallel()
	text, err := Manifest("v1.2.3", []Archive{
		{OS: "windows", Architecture: "amd64", URL: "https://example.com/x.tar.gz", SHA256: "0f", Files: []string{"kubectl-gputask.exe", "LICENSE"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description, Caveats string
			Platforms                                                 []platform
		}
	}
	if err := yaml.UnmarshalStrict(text, &got); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if got.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || got.Kind != "Plugin" || got.Metadata.Name != "gputask" || got.Spec.Version != "v1.2.3" {
		t.Errorf("it is %s, kind %s, of %s %s", got.APIVersion, got.Kind, got.Metadata.Name, got.Spec.Version)
	}
	if length := len(got.Spec.ShortDescription); length == 0 || length > 50 {
		t.Errorf("the short description has %d characters, krew's index takes 50", length)
	}
	want := []platform{{
		Selector: selector{MatchLabels: map[string]string{"os": "windows", "arch": "amd64"}}, URI: "https://example.com/x.tar.gz", SHA256: "0f",
		Bin: "kubectl-gputask.exe", Files: []file{{"kubectl-gputask.exe", "."}, {"LICENSE", "."}},
	}}
	if diff := cmp.Diff(want, got.Spec.Platforms); diff != "" {
		t.Errorf("the platforms (-want +got):\n%s", diff)
	}
}
