// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package devices is the kube-scheduler plugin GPUDevices: it keeps Pods off nodes
// and GPUs that are not for them, and binds each Pod with the names of its cards.
package devices

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/planner"
)

// Name is the plugin's name.
const Name = config.DevicesPlugin

const bytesPerMiB = 1 << 20

// Plugin is GPUDevices of one profile.
type Plugin struct {
	shared *planner.Shared
}

var (
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.BindPlugin        = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// Factory returns the function that creates the plugin for each profile.
func Factory(shared *planner.Shared) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(_ context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, err := config.DecodeDevices(object)
		if err != nil {
			return nil, err
		}
		shared.SetPlacement(handle.ProfileName(), args.Placement)
		return &Plugin{shared: shared}, nil
	}
}

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }

// PreFilter implements fwk.PreFilterPlugin: most Pods without GPUs need no Filter. What is kept from the others
// is found out once for all nodes.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	plans := p.shared.Get()
	if filters.InTrial(state) || plans == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if plans.Concerns(pod) {
		return nil, nil
	}
	room := plans.KeptRoom(pod, nodes)
	if room == nil && !plans.Confined() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if room != nil {
		room.Write(state)
	}
	return nil, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter implements fwk.FilterPlugin. The framework may call it for nodes that PreFilter
// has ruled out: nominated ones, and those of a batch.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	node := info.Node()
	cycle := planner.CycleOf(state)
	switch {
	case cycle == nil:
		return p.filterOther(state, pod, info)
	case cycle.Node != "":
		if cycle.Node != node.Name {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the Pod's seat is on another node")
		}
	default:
		if _, fits := cycle.Order[node.Name]; !fits {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no room for the Pod's GPUs")
		}
	}
	return nil
}

// filterOther keeps Pods that are not ours off nodes in other schedulers' pools, and away
// from CPU and memory that are held by seats, kept, booked or reserved.
func (p *Plugin) filterOther(state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	if !p.shared.Get().Owns(info.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the node is in a pool of another scheduler")
	}
	room := planner.KeptRoomOf(state)
	if room == nil {
		return nil
	}
	held, why := room.On(info)
	if held.IsZero() {
		return nil
	}
	requests := snapshot.Requests(pod)
	used, all := info.GetRequested(), info.GetAllocatable()
	if lacks(requests.Cpu().MilliValue(), used.GetMilliCPU()+held.CPU, all.GetMilliCPU()) ||
		lacks(requests.Memory().Value(), used.GetMemory()+held.Memory*bytesPerMiB, all.GetMemory()) ||
		len(info.GetPods())+held.Pods+1 > all.GetAllowedPodNumber() || lacksOther(info, held.Others, snapshot.Others(requests)) {
		room.TurnAway()
		return fwk.NewStatus(fwk.Unschedulable, why)
	}
	return nil
}

// lacks reports whether too little is left of a resource for a Pod that requests any of it.
func lacks(requested, used, all int64) bool { return requested > 0 && used+requested > all }

// lacksOther reports whether a node has too little of a resource that is withheld for what
// a Pod requests of it.
func lacksOther(info fwk.NodeInfo, held, requests placement.Amounts) bool {
	used, all := info.GetRequested(), info.GetAllocatable()
	return slices.ContainsFunc(held, func(withheld placement.Amount) bool {
		requested := requests.Of(withheld.Resource)
		return requested > 0 && amountOf(used, withheld.Resource)+withheld.Value+requested > amountOf(all, withheld.Resource)
	})
}

func amountOf(list fwk.Resource, resource string) int64 {
	if resource == string(corev1.ResourceEphemeralStorage) {
		return list.GetEphemeralStorage()
	}
	return list.GetScalarResources()[corev1.ResourceName(resource)]
}

// Bind implements fwk.BindPlugin: the API server writes the Binding's annotations into
// the Pod, so that passing its cards to the node costs no further write.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	cycle := planner.CycleOf(state)
	if cycle == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	if err := p.shared.Get().Bind(ctx, pod, node, cycle.Plan); err != nil {
		return fwk.AsStatus(err)
	}
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions. Pods that seats, kept nodes, bookings or
// reservations have turned away are requeued by the planner; those rejected because of a node's pool
// need another node.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}},
	}, nil
}

// SignPod implements fwk.SignPlugin. All Pods without GPUs are alike for it.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if gangs.Concerns(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "GPUs are assigned to each Pod individually")
	}
	return nil, nil
}
