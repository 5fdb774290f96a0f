// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package migprofile

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// FuzzProfile reads any text as the name of a profile, for a GPU of any memory. The name of the
// resource leads back to it, what fits once is no larger than the GPU, and what does not fit alone
// does not fit with others.
func FuzzProfile(f *testing.F) {
	for _, profile := range []string{"1g.10gb", "3g.40gb", "7g.80gb", "1g.10gb+me", "1g.10gb+me.all", "2g.9999gb", "99g.1gb", "1g.1gb+a+b", ""} {
		f.Add(profile, int64(80<<30))
	}
	f.Add("1g.5gb", int64(0))
	f.Add("1g.5gb", int64(-1))
	f.Add("1g.9999gb", int64(1))
	f.Fuzz(func(t *testing.T, profile string, gpuBytes int64) {
		compute, memory := Compute(profile), Memory(profile, gpuBytes)
		if !v1.IsMIGProfile(profile) {
			if compute != 0 || memory != 0 || Fit([]string{profile}, gpuBytes) == nil {
				t.Errorf("%q is no profile, but has %d slices and %d bytes", profile, compute, memory)
			}
			return
		}
		if compute < 1 {
			t.Errorf("%q has %d compute slices", profile, compute)
		}
		for _, resource := range []corev1.ResourceName{v1.MIGResource(profile), v1.MIGResourceBeside(v1.ResourceNVIDIAGPU, profile)} {
			if back, ok := v1.SliceProfile(resource); !ok || back != profile {
				t.Errorf("%q has the resource %s, which is of %q", profile, resource, back)
			}
		}
		checkFit(t, profile, gpuBytes)
	})
}

func checkFit(t *testing.T, profile string, gpuBytes int64) {
	t.Helper()
	fits, memory := Fit([]string{profile}, gpuBytes) == nil, Memory(profile, gpuBytes)
	if fits && gpuBytes >= 0 && (memory < 0 || memory > gpuBytes) {
		t.Errorf("%q fits on %d bytes and has %d of them", profile, gpuBytes, memory)
	}
	if both := Fit([]string{profile, "1g.1gb"}, gpuBytes) == nil; both && !fits {
		t.Errorf("%q fits only beside another slice", profile)
	}
	if Fit(slices.Repeat([]string{profile}, 8), gpuBytes) == nil {
		t.Errorf("eight slices %q fit", profile)
	}
}
