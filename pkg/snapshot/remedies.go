// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"maps"
	"slices"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// shownNodes is how many nodes of a remedy are named.
const shownNodes = 8

// Remedies returns what would let a gang start, as it is published and shown.
func Remedies(explanation *placement.Explanation) []v1.WaitingRemedy {
	var list []v1.WaitingRemedy
	for i := range explanation.Remedies {
		one := &explanation.Remedies[i]
		remedy := v1.WaitingRemedy{Kind: string(one.Kind), Value: one.Value, Resource: one.Resource, Message: PlainDomains(one.Text)}
		nodes := slices.Concat(one.Nodes, slices.Sorted(maps.Keys(one.Free)))
		remedy.Nodes = nodes[:min(len(nodes), shownNodes)]
		list = append(list, remedy)
	}
	return list
}
