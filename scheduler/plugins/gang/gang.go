// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gang is the kube-scheduler plugin GPUGang: it decides when a Pod's turn
// comes, plans its gang, steers each member to its seat, and binds all of them at
// once.
package gang

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/planner"
)

// Name is the plugin's name.
const Name = config.GangPlugin

// Plugin is GPUGang of one profile.
type Plugin struct {
	planner *planner.Planner
	shared  *planner.Shared
	profile string
}

var (
	_ fwk.QueueSortPlugin   = (*Plugin)(nil)
	_ fwk.PreEnqueuePlugin  = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PermitPlugin      = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// Factory returns the function that creates the plugin for each profile.
func Factory(shared *planner.Shared) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, err := config.DecodeGang(object)
		if err != nil {
			return nil, err
		}
		plans, err := shared.Planner(ctx, args, handle)
		if err != nil {
			return nil, err
		}
		return &Plugin{planner: plans, shared: shared, profile: handle.ProfileName()}, nil
	}
}

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }

// Less implements fwk.QueueSortPlugin: by priority, then by age of the gang, with its
// members next to each other. Other Pods are as old as their last attempt, as in
// kube-scheduler. With GPUQueues, the order is that in which they were let into the queue.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	return p.rank(a).Compare(p.rank(b)) < 0
}

// rank returns an entry's place in the queue. With kube-scheduler's own groups switched on
// (feature gate GenericWorkload), an entry may be a group, which has a priority and an age.
func (p *Plugin) rank(queued fwk.QueuedEntityInfo) gangs.Rank {
	if one, isPod := queued.(interface{ GetPodInfo() fwk.PodInfo }); isPod {
		return p.planner.RankOf(one.GetPodInfo().GetPod(), queued.GetTimestamp())
	}
	return p.planner.RankOfOthers(queued.GetPriority(), queued.GetTimestamp())
}

// PreEnqueue implements fwk.PreEnqueuePlugin.
func (p *Plugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if why := p.planner.Gate(pod); why != "" {
		return unresolvable(why)
	}
	return nil
}

// unresolvable returns the status of a Pod that can't be scheduled for now. kube-scheduler takes what it
// says for the format of an Event, in which a percent sign would be the beginning of a verb.
func unresolvable(why string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, strings.ReplaceAll(why, "%", " percent"))
}

// PreFilter implements fwk.PreFilterPlugin. In the leader's cycle it plans the whole
// gang; for the other members it only returns the node of their seat.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if filters.InTrial(state) || !p.planner.Concerns(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	decision := p.planner.StartCycle(pod, nodes, p.shared.Scored(p.profile)) //nolint:contextcheck // its trials end with the cycle, which is not cancelled
	(&planner.Cycle{Decision: decision}).Write(state)
	switch {
	case decision.Wrong != "" || decision.Waits != "":
		return nil, unresolvable(decision.Wrong + decision.Waits)
	case decision.Node != "":
		return &fwk.PreFilterResult{NodeNames: sets.New(decision.Node)}, nil
	}
	return nil, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PostFilter implements fwk.PostFilterPlugin. DefaultPreemption, which considers one Pod
// at a time, does not run for our Pods.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	cycle := planner.CycleOf(state)
	switch {
	case cycle == nil && !p.planner.Concerns(pod):
		return nil, fwk.NewStatus(fwk.Unschedulable)
	case cycle == nil: // the PreFilter of another plugin refused it
		p.planner.RejectedByOtherPlugin(pod.UID)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	case cycle.Node != "":
		return nil, unresolvable(p.planner.Refuse(ctx, pod.UID, cycle.Plan, cycle.Node))
	case cycle.Wrong != "":
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	case cycle.Order != nil:
		p.planner.RefusedByAll(pod.UID, statuses, cycle.Order)
	}
	outcome := p.planner.Preempt(ctx, pod)
	result := nominatedFor(p.planner.Evictor().Nominated(pod))
	if outcome != "" && outcome != planner.NoVictims { // what it waits for is said without that
		return result, unresolvable("preemption: " + outcome)
	}
	return result, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// nominatedFor has kube-scheduler nominate a Pod for a node. Without one, what the Pod has
// stays as it is: others nominate Pods, too.
func nominatedFor(node string) *fwk.PostFilterResult {
	if node == "" {
		return nil
	}
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride}}
}

// Reserve implements fwk.ReservePlugin. A Pod whose node was scored takes its seat.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	p.planner.Devices().Reserved(pod)
	cycle := planner.CycleOf(state)
	if cycle == nil || cycle.Order == nil {
		return nil
	}
	plan, err := p.planner.Reserve(pod, node)
	if err != nil {
		return fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	(&planner.Cycle{Decision: planner.Decision{Node: node, Plan: plan}}).Write(state)
	return nil
}

// Unreserve implements fwk.ReservePlugin.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) {
	p.planner.Devices().Unreserved(pod)
	if cycle := planner.CycleOf(state); cycle != nil && cycle.Plan != 0 {
		p.planner.Unreserve(pod.UID, cycle.Plan)
	}
}

// Permit implements fwk.PermitPlugin.
func (p *Plugin) Permit(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	cycle := planner.CycleOf(state)
	if cycle == nil {
		return nil, 0
	}
	wait, err := p.planner.Barrier(pod.UID, cycle.Plan)
	switch {
	case err != nil:
		return fwk.NewStatus(fwk.Unschedulable, err.Error()), 0
	case wait:
		return fwk.NewStatus(fwk.Wait), p.planner.PermitTimeout()
	}
	return nil, 0
}

// EventsToRegister implements fwk.EnqueueExtensions. The planner itself requeues waiting
// gangs, one Pod for each, without the queue's backoff.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// SignPod implements fwk.SignPlugin: our Pods are not interchangeable, each has its own
// seat.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if gangs.Concerns(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("plugin %s places each Pod individually", Name))
	}
	return nil, nil
}
