// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestMIGProfilesAndTheirResources(t *testing.T) {
	t.Parallel()
	for profile, resource := range map[string]corev1.ResourceName{
		"1g.10gb":        "falldio.com/mig-1g.10gb",
		"7g.80gb":        "falldio.com/mig-7g.80gb",
		"1g.10gb+me":     "falldio.com/mig-1g.10gb.me",
		"1g.5gb+me+gfx1": "falldio.com/mig-1g.5gb.me.gfx1",
	} {
		if got := MIGResource(profile); got != resource || !IsMIGProfile(profile) {
			t.Errorf("%s is %s, valid %t", profile, got, IsMIGProfile(profile))
		}
		if problems := validation.IsQualifiedName(string(resource)); len(problems) > 0 {
			t.Errorf("%s: %v", resource, problems)
		}
		if got, ok := MIGProfileOf(resource); got != profile || !ok {
			t.Errorf("%s counts slices of %q, %t", resource, got, ok)
		}
	}
}

func TestWhatIsNoMIGProfile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1g", "10gb", "1g.10", "0g.10gb", "1g.10gb+", "1g.10gb.me", "1G.10GB", "1g.10gb,2g.20gb", "mig-1g.10gb", "1c.2g.20gb "} {
		if IsMIGProfile(text) {
			t.Errorf("%q is one", text)
		}
	}
	for _, resource := range []corev1.ResourceName{ResourceGPU, ResourceGPUPercent, "falldio.com/mig-", "falldio.com/mig-large", "nvidia.com/mig-1g.10gb"} {
		if profile, ok := MIGProfileOf(resource); ok {
			t.Errorf("%s is of %q", resource, profile)
		}
	}
}

func TestSlicesAreCountedUnderOurNameOrNVIDIAs(t *testing.T) {
	t.Parallel()
	for gpus, want := range map[corev1.ResourceName]corev1.ResourceName{
		"":                "falldio.com/mig-1g.10gb.me",
		ResourceGPU:       "falldio.com/mig-1g.10gb.me",
		ResourceNVIDIAGPU: "nvidia.com/mig-1g.10gb.me",
	} {
		resource := MIGResourceBeside(gpus, "1g.10gb+me")
		if resource != want {
			t.Errorf("beside %q slices are %s, want %s", gpus, resource, want)
		}
		if profile, ok := SliceProfile(resource); profile != "1g.10gb+me" || !ok {
			t.Errorf("%s counts slices of %q, %t", resource, profile, ok)
		}
	}
	for _, resource := range []corev1.ResourceName{ResourceGPU, ResourceGPUPercent, ResourceNVIDIAGPU, "nvidia.com/mig-large", "example.com/mig-1g.10gb"} {
		if profile, ok := SliceProfile(resource); ok {
			t.Errorf("%s is of %q", resource, profile)
		}
	}
}
