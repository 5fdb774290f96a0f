// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"falldio.github.io/gpu-controller/scheduler/planner"
)

const (
	// plannedKey is where a scheduling cycle keeps its planned devices.
	plannedKey fwk.StateKey = "falldio.com/planned-devices"
	// theirKey is where DynamicResources keeps what its PreFilter has prepared.
	theirKey fwk.StateKey = names.DynamicResources
)

// planned is what DynamicResources prepares in a scheduling cycle for the planned devices of its
// Pod. It is shared by all copies of the cycle's state.
type planned struct {
	mu sync.Mutex
	// done is true once it is prepared: data is the result, or nil if no devices are planned, and
	// status why it can't be.
	done   bool
	data   fwk.StateData
	status *fwk.Status
}

var _ fwk.StateData = (*planned)(nil)

// Clone implements fwk.StateData.
func (d *planned) Clone() fwk.StateData { return d }

func (d *planned) write(state fwk.CycleState) { state.Write(plannedKey, d) }

// plannedOf returns what was written in the cycle; nil for Pods that the planner does not place.
func plannedOf(state fwk.CycleState) *planned {
	data, err := state.Read(plannedKey)
	if err != nil {
		return nil
	}
	one, _ := data.(*planned)
	return one
}

// use makes DynamicResources use the planned devices in a cycle. Filters may be run with copies of
// the cycle's state, at the same time.
func (d *planned) use(ctx context.Context, p *Plugin, state fwk.CycleState, pod *corev1.Pod) *fwk.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.done {
		d.data, d.status = prepare(ctx, p, state, pod)
		d.done = true
	}
	if d.data != nil {
		state.Write(theirKey, d.data)
	}
	return d.status
}

// prepare runs the PreFilter of DynamicResources with the planned devices only. It returns nil if
// none are planned.
func prepare(ctx context.Context, p *Plugin, state fwk.CycleState, pod *corev1.Pod) (fwk.StateData, *fwk.Status) {
	cycle, plans := planner.CycleOf(state), p.shared.Get()
	if cycle == nil || plans == nil {
		return nil, nil
	}
	places := plans.PlannedDevices(pod, &cycle.Decision)
	if len(places) == 0 {
		return nil, nil
	}
	own := framework.NewCycleState()
	if _, status := p.preFilter(ctx, own, pod, nil, &restriction{node: cycle.Node, only: places}); !status.IsSuccess() && !status.IsSkip() {
		return nil, status
	}
	data, err := own.Read(theirKey)
	if err != nil {
		return nil, fwk.AsStatus(errors.New("plugin " + names.DynamicResources + " has prepared nothing"))
	}
	return data, nil
}
