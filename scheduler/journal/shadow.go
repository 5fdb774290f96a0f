// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"maps"
	"slices"

	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// shadow is the cluster as the records add up to it.
type shadow struct {
	nodes map[string]mirror.Described
	pods  map[string]mirror.Held
}

// apply applies a record. After records were dropped, it is wrong until the next checkpoint, which then has all that is
// there.
func (s *shadow) apply(one *record) {
	switch {
	case one.checkpoint != nil:
		if one.checkpoint.All {
			s.reset(one.checkpoint.Contents)
		}
	case s.nodes == nil: // there has been no checkpoint
	case one.node != nil:
		s.nodes[one.node.Name] = mirror.Described{Node: one.node, Kind: one.kind}
	case one.gone != "":
		delete(s.nodes, one.gone)
	case one.pod != nil:
		s.pods[one.pod.Name] = mirror.Held{Pod: one.pod, Holder: one.holder, Seat: one.seat}
	case one.left != "":
		delete(s.pods, one.left)
	}
}

func (s *shadow) reset(contents *mirror.Contents) {
	s.nodes, s.pods = make(map[string]mirror.Described, len(contents.Nodes)), make(map[string]mirror.Held, len(contents.Pods))
	for _, node := range contents.Nodes {
		s.nodes[node.Name] = node
	}
	for _, pod := range contents.Pods {
		s.pods[pod.Name] = pod
	}
}

// sorted returns the nodes, those first whose kind the engine saw first: who adds them in this order numbers the kinds
// alike.
func (s *shadow) sorted() []mirror.Described {
	return slices.SortedFunc(maps.Values(s.nodes), func(a, b mirror.Described) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}
