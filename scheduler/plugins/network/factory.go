// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// factory creates the plugins of all profiles of a process.
type factory struct {
	clock    clock.Clock
	register func(metrics.StableCollector) error

	mu sync.Mutex
	// measuring is nil until the first profile has the plugin.
	measuring *measuring
}

// NewFactory returns the constructor of the plugin, for one process: the profiles of a
// scheduler share what is measured, and must have the same arguments.
func NewFactory() func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return (&factory{clock: clock.RealClock{}, register: legacyregistry.CustomRegister}).make
}

// make is a frameworkruntime.PluginFactory. What it starts for the first profile ends
// with that ctx, which is that of the process.
func (f *factory) make(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := decode(object)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.measuring != nil {
		return &Plugin{measuring: f.measuring}, f.measuring.args.same(args)
	}
	measuring := newMeasuring(args, f.clock)
	if err := measuring.start(ctx, handle, f.clock, f.register); err != nil {
		return nil, err
	}
	f.measuring = measuring
	return &Plugin{measuring: measuring}, nil
}
