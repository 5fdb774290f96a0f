// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package packing is the kube-scheduler plugin GPUPacking: it scores nodes in the
// order of the placement engine, for profiles that leave the choice of nodes to
// Score plugins.
package packing

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/planner"
)

// Name is the plugin's name.
const Name = "GPUPacking"

// Plugin is GPUPacking of one profile.
type Plugin struct{}

var (
	_ fwk.PreScorePlugin  = (*Plugin)(nil)
	_ fwk.ScorePlugin     = (*Plugin)(nil)
	_ fwk.ScoreExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin      = (*Plugin)(nil)
)

// New returns the plugin.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &Plugin{}, nil }

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }

// PreScore implements fwk.PreScorePlugin.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if cycle := planner.CycleOf(state); cycle == nil || cycle.Order == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score implements fwk.ScorePlugin: the place in the engine's order, from 0.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	cycle := planner.CycleOf(state)
	if cycle == nil {
		return 0, nil
	}
	return int64(cycle.Order[info.Node().Name]), nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore implements fwk.ScoreExtensions. The best node gets 100 and no other
// more than 99: scores are whole numbers, and the framework breaks ties at random.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[a].Score, scores[b].Score) })
	for place, i := range order {
		if place == 0 {
			scores[i].Score = fwk.MaxScore
			continue
		}
		rest := int64(len(order) - place) // of len(order)-1 places
		scores[i].Score = (fwk.MaxScore - 1) * rest / int64(len(order)-1)
	}
	return nil
}

// SignPod implements fwk.SignPlugin.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if gangs.Concerns(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "GPUs are assigned to each Pod individually")
	}
	return nil, nil
}
