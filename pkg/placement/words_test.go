// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "testing"

func TestSlicesInWords(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"2 MIG slices of profile 1g.10gb":                Amount{"falldio.com/mig-1g.10gb", 2}.String(),
		"1 MIG slice of profile 1g.10gb+me":              Amount{"falldio.com/mig-1g.10gb.me", 1}.String(),
		"11 MIG slices of profile 3g.40gb":               Amount{"nvidia.com/mig-3g.40gb", 11}.String(),
		"2 falldio.com/gpu":                              Amount{"falldio.com/gpu", 2}.String(),
		"has too few free MIG slices of profile 2g.20gb": (&Refusal{Reason: InsufficientResource, Resource: "nvidia.com/mig-2g.20gb", Nodes: 1}).String(),
		"have too few MIG slices of profile 2g.20gb":     (&Refusal{Reason: ResourceTooSmall, Resource: "nvidia.com/mig-2g.20gb", Nodes: 2}).String(),
		"have too few free rdma/hca":                     (&Refusal{Reason: InsufficientResource, Resource: "rdma/hca", Nodes: 2}).String(),
		"4 CPU, 2 MIG slices of profile 1g.10gb":         (&Shape{CPU: 4000, Others: Amounts{{"falldio.com/mig-1g.10gb", 2}}}).String(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
