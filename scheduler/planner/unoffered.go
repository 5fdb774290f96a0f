// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/filters"
)

// unoffered says that no node offers GPUs under the name by which a gang asks for them; empty if some may. The engine
// leaves GPUs that no node lists to kube-scheduler, which may find them with a DRA driver: it has to have refused them.
func unoffered(p *Planner, s *search) (text string) {
	shape := s.attempt.Waiting[0].Shape
	resource, refused := snapshot.GPUResource(&shape), false
	s.refused.Each(func(_ string, refusal *filters.Refusal) {
		refused = refused || slices.Contains(strings.Split(refusal.Reason, "; "), "Insufficient "+string(resource))
	})
	if !refused || p.mirror.Lists(resource) {
		return ""
	}
	p.mirror.For(p.finder.requesterOf(s.attempt), func(cluster *placement.Cluster) {
		explanation, err := cluster.Explain(&placement.Gang{Roles: []placement.Role{{Shape: shape, Min: 1, Max: 1}}})
		if err == nil && explanation != nil {
			text = explanation.Absent
		}
	})
	return text
}
