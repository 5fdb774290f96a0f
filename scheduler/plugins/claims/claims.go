// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claims is the kube-scheduler plugin GPUClaims: kube-scheduler's own DynamicResources,
// which allocates devices to resource claims (DRA), except that the claims of Pods which the
// planner has placed get exactly the GPUs of the plan.
//
// DynamicResources takes the first devices that satisfy a claim. GPUClaims leaves all of the work
// to it (taints, counters, shared capacity, conditions, extended resources, what is written), but
// shows its allocator only the planned GPUs among those that are free: the only allocation that it
// can find then is the plan. Nothing is written in advance, so nothing is left behind when the
// scheduler is killed.
package claims

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/planner"
	"falldio.github.io/gpu-controller/scheduler/resourceclaims"
)

// Name is the plugin's name.
const Name = config.ClaimsPlugin

// Plugin is GPUClaims of one profile.
type Plugin struct {
	// DynamicResources does all that is not said otherwise here.
	*dynamicresources.DynamicResources
	shared *planner.Shared

	// mu serializes the use of restricted, whose devices view determines.
	mu         sync.Mutex
	restricted *dynamicresources.DynamicResources
	view       *view
}

var (
	_ fwk.PreEnqueuePlugin         = (*Plugin)(nil)
	_ fwk.PreFilterPlugin          = (*Plugin)(nil)
	_ fwk.FilterPlugin             = (*Plugin)(nil)
	_ fwk.PostFilterPlugin         = (*Plugin)(nil)
	_ fwk.PodGroupPostFilterPlugin = (*Plugin)(nil)
	_ fwk.ScorePlugin              = (*Plugin)(nil)
	_ fwk.ReservePlugin            = (*Plugin)(nil)
	_ fwk.EnqueueExtensions        = (*Plugin)(nil)
	_ fwk.PreBindPlugin            = (*Plugin)(nil)
	_ fwk.SignPlugin               = (*Plugin)(nil)
)

// Factory returns the function that creates the plugin for each profile.
func Factory(shared *planner.Shared) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, err := config.DecodeClaims(object)
		if err != nil {
			return nil, err
		}
		original, err := newOriginal(ctx, args, observedHandle{handle, shared})
		if err != nil {
			return nil, err
		}
		p := &Plugin{DynamicResources: original, shared: shared}
		if handle.SharedDRAManager() == nil {
			return p, nil // dynamic resource allocation is off
		}
		p.view = &view{SharedDRAManager: handle.SharedDRAManager()}
		p.restricted, err = newOriginal(ctx, args, restrictedHandle{handle, p.view})
		return p, err
	}
}

// newOriginal returns kube-scheduler's plugin.
func newOriginal(ctx context.Context, args *config.ClaimsArgs, handle fwk.Handle) (*dynamicresources.DynamicResources, error) {
	seconds := func(count int) *metav1.Duration {
		return &metav1.Duration{Duration: time.Duration(count) * time.Second}
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	theirs := &schedulerconfig.DynamicResourcesArgs{BindingTimeout: seconds(args.BindingTimeoutSeconds)}
	if features.EnableDRASchedulerFilterTimeout {
		theirs.FilterTimeout = seconds(args.FilterTimeoutSeconds)
	}
	if !features.EnableDRADeviceBindingConditions {
		theirs.BindingTimeout = nil
	}
	created, err := dynamicresources.New(ctx, theirs, handle, features)
	if err != nil {
		return nil, err
	}
	original, ok := created.(*dynamicresources.DynamicResources)
	if !ok {
		return nil, fmt.Errorf("kube-scheduler's plugin %s is a %T", dynamicresources.Name, created)
	}
	return original, nil
}

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }

// PreFilter implements fwk.PreFilterPlugin. It comes before that of GPUGang, which decides what
// the Pod gets: the devices are restricted later.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if p.restricted == nil || filters.InTrial(state) {
		return p.DynamicResources.PreFilter(ctx, state, pod, nodes)
	}
	if plans := p.shared.Get(); plans != nil {
		if plans.Concerns(pod) {
			(&planned{}).write(state)
		} else if kept := plans.SeatedDevices(); len(kept) > 0 && resourceclaims.UsesDevices(pod) {
			return p.preFilter(ctx, state, pod, nodes, &restriction{without: kept})
		}
	}
	return p.DynamicResources.PreFilter(ctx, state, pod, nodes)
}

// preFilter runs kube-scheduler's PreFilter with some of the devices.
func (p *Plugin) preFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo, r *restriction) (*fwk.PreFilterResult, *fwk.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.view.set(r)
	defer p.view.set(nil)
	return p.restricted.PreFilter(ctx, state, pod, nodes)
}

// Filter implements fwk.FilterPlugin. For a Pod that the planner has placed, it looks at the
// planned devices only.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if one := plannedOf(state); one != nil {
		if status := one.use(ctx, p, state, pod); !status.IsSuccess() {
			return status
		}
	}
	return p.DynamicResources.Filter(ctx, state, pod, node)
}
