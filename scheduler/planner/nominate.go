// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// nominationsFor returns the nodes of the victims that members of a gang will get places on.
func nominationsFor(request *gangs.Request, found *preemptionPlan) map[types.UID]string {
	nodes := map[types.UID]string{}
	members, places := request.Assign(found.plan)
	for i, m := range members {
		if found.vacated[places[i].Node] {
			nodes[m.UID] = places[i].Node
		}
	}
	return nodes
}

// onNominated returns the request restricted to the nodes that its members are nominated for;
// nil if not all that have to get places are. It is for use within mirror.For.
func (f *finder) onNominated(attempt *gangs.Attempt, request *gangs.Request) *gangs.Request {
	nominated := map[string]bool{}
	for i, m := range attempt.Waiting {
		node := m.Pod().Status.NominatedNodeName
		switch {
		case node != "":
			nominated[node] = true
		case i < attempt.Need:
			return nil
		}
	}
	confined := request.Confined(func(gang *placement.Gang) {
		gang.Except = append(slices.Clone(gang.Except), f.mirror.OtherNodes(nominated)...)
	})
	confined.Only = slices.Sorted(maps.Keys(nominated))
	return confined
}

// preferNominated exchanges the places of members of the same role, so that as many as
// possible get one on the node that they are nominated for: kube-scheduler's filters expect
// them there.
func preferNominated(plan *placement.Plan, members []*gangs.Member, places []placement.Place) {
	wants := func(i int) string { return members[i].Pod().Status.NominatedNodeName }
	for i := range members {
		if wants(i) == places[i].Node {
			continue
		}
		for j := range members {
			if plan.Members[i].Role == plan.Members[j].Role && wants(j) == places[i].Node && wants(j) != places[j].Node {
				members[i], members[j] = members[j], members[i]
				break
			}
		}
	}
}
