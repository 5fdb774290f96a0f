// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/filters"
)

// shownNodes is how many causes are published.
const shownNodes = 8

// causeOf returns the most frequent cause that may end.
func causeOf(explanation *placement.Explanation) v1.WaitingCause {
	if explanation.Never {
		return v1.WaitsForever
	}
	if explanation.Closed {
		return v1.WaitsForClosedNodes
	}
	if len(explanation.Refusals) == 0 {
		return v1.WaitsForNodes
	}
	switch explanation.Refusals[0].Reason {
	case placement.Fits:
		return v1.WaitsForNodesTogether
	case placement.InsufficientGPUs, placement.InsufficientShare:
		return v1.WaitsForGPUs
	case placement.InsufficientCPU, placement.InsufficientMemory, placement.InsufficientResource, placement.NoPodSlot:
		return v1.WaitsForCPUOrMemory
	default:
		return v1.WaitsForConstraints
	}
}

// nodesOf counts the nodes by why they can't take a further Pod.
func nodesOf(explanation *placement.Explanation) []v1.WaitingNodes {
	var list []v1.WaitingNodes
	for i := range explanation.Refusals[:min(len(explanation.Refusals), shownNodes)] {
		one := &explanation.Refusals[i]
		list = append(list, v1.WaitingNodes{
			Count: int32(one.Nodes), Cause: one.Reason.Word(), Resource: one.Resource, Message: snapshot.PlainDomains(one.String()), //nolint:gosec // nodes
		})
	}
	return list
}

// refusedNodes counts the nodes that kube-scheduler's filters refused, by plugin.
func refusedNodes(refused *filters.Refusals) []v1.WaitingNodes {
	var list []v1.WaitingNodes
	counts := refused.Counts()
	for i := range counts[:min(len(counts), shownNodes)] {
		one := &counts[i]
		list = append(list, v1.WaitingNodes{Count: int32(one.Nodes), Cause: one.Plugin, Message: one.Reason}) //nolint:gosec // nodes
	}
	return list
}
