// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/clock"
)

// Sources are the simulated GPUs of the nodes that one process serves, by node.
type Sources map[string]*Source

// Add adds the GPUs of a node, which a profile describes.
func (s Sources) Add(node string, profile *Profile, c clock.Clock) *Source {
	s[node] = New(profile, node, c)
	return s[node]
}

// Find returns the GPUs of a node; without a name, those of the only one.
func (s Sources) Find(node string) (*Source, error) {
	if node == "" && len(s) == 1 {
		for _, source := range s {
			return source, nil
		}
	}
	if source := s[node]; source != nil {
		return source, nil
	}
	const shown = 10
	names := slices.Sorted(maps.Keys(s))
	more := ""
	if len(names) > shown {
		names, more = names[:shown], ", …"
	}
	return nil, fmt.Errorf("node: %q is not one of %s%s", node, strings.Join(names, ", "), more)
}

// FaultFile returns the file whose faults are injected.
func (s Sources) FaultFile(path string) *FaultFile { return NewFaultFile(path, s.inject) }

func (s Sources) inject(fault Fault) error {
	source, err := s.Find(fault.Node)
	if err != nil {
		return err
	}
	return source.Inject(fault)
}
