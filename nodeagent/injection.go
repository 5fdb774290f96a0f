// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi/nvidia"
	"falldio.github.io/gpu-controller/nodeagent/node/kube"
)

// injection is how containers get access to their GPUs: by CDI or by an environment variable.
type injection struct {
	// cdiKind is the kind of the CDI devices; empty for the environment variable.
	cdiKind string
	// writer describes the GPUs in the directory dir; nil unless this agent has to.
	writer *cdi.Writer
	dir    string
	// limitsMemory reports whether NVIDIA's hook limits the memory of shares; nil if nothing
	// does.
	limitsMemory func() bool
}

// runtimeLimit bounds how long to wait until the API server names the container runtime: a kubelet
// that was started before the runtime writes its version 10 seconds later. Containers must get
// devices without it, too.
const runtimeLimit = 12 * time.Second

// newInjection chooses how containers get their GPUs, and removes a specification that is
// then out of use.
func newInjection(ctx context.Context, clients *clients, opts *options, c clock.Clock) (*injection, error) {
	options := &opts.injection
	if opts.mode == modeObserve {
		return &injection{}, cdi.Remove(options.cdiSpecDir)
	}
	// What the DRA driver has described when it gave out the GPUs: see docs/dra.md.
	if err := cdi.DRADriver().RemoveFiles(options.cdiSpecDir); err != nil {
		klog.FromContext(ctx).Error(err, "CDI specifications of the DRA driver can't be removed")
	}
	located, hooked := options.nvidia.Locate()
	strategy := options.strategy
	if strategy == strategyAuto {
		var reason string
		strategy, reason = choose(gather(ctx, clients, opts, hooked))
		klog.FromContext(ctx).Info("Chose how containers get their GPUs", "strategy", strategy, "reason", reason)
	}
	limits, err := memoryLimits(opts, strategy, &located)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Nothing limits the memory of shares of GPUs")
	}
	if strategy == strategyEnvVar || options.cdiKind != cdi.Kind {
		if err := cdi.Remove(options.cdiSpecDir); err != nil {
			klog.FromContext(ctx).Error(err, "A CDI specification that is out of use can't be removed")
		}
		return &injection{cdiKind: kindFor(strategy, options.cdiKind)}, nil
	}
	i := &injection{cdiKind: options.cdiKind, dir: options.cdiSpecDir, limitsMemory: func() bool { return limits }}
	var generator cdi.Generator = &cdi.Simulated{Dir: options.cdiSpecDir}
	if !opts.simulated() {
		if !hooked {
			return nil, fmt.Errorf("--device-list-strategy=%s: the node has no nvidia-cdi-hook, see --nvidia-cdi-hook-path and --host-root; it comes with NVIDIA's Container Toolkit", strategyCDI)
		}
		located.LimitMemory = limits
		toolkit := nvidia.New(located, opts.nvmlLibrary, klog.FromContext(ctx))
		generator, i.limitsMemory = toolkit, toolkit.LimitsMemory
	}
	i.writer = cdi.NewWriter(options.cdiSpecDir, generator, c)
	return i, nil
}

func kindFor(strategy, kind string) string {
	if strategy == strategyEnvVar {
		return ""
	}
	return kind
}

// facts are what the choice depends on.
type facts struct {
	// kind is the value of --cdi-kind.
	kind string
	// runtime is the container runtime as the Node names it; unknown if that can't be read.
	runtime string
	unknown error
	// describedBefore is true if there is a specification of an earlier run of the agent.
	describedBefore bool
	// ready is false if what the specification of NVIDIA's GPUs needs is not there.
	ready bool
	// unwritable is why the specification can't be written, or nil.
	unwritable error
}

// gather gathers the facts.
func gather(ctx context.Context, clients *clients, opts *options, hooked bool) *facts {
	ctx, cancel := context.WithTimeout(ctx, runtimeLimit)
	defer cancel()
	f := &facts{kind: opts.injection.cdiKind, ready: opts.simulated() || hooked}
	_, err := os.Stat(cdi.Path(opts.injection.cdiSpecDir))
	f.describedBefore = err == nil
	// Its error is that of ContainerRuntime, which matters more.
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		f.runtime, f.unknown = kube.ContainerRuntime(ctx, clients.config, opts.nodeName)
		return f.unknown == nil || f.describedBefore, nil
	})
	f.unwritable = cdi.Writable(opts.injection.cdiSpecDir)
	return f
}

// choose chooses how containers get their GPUs, and says why. An environment variable is the
// fallback: a Pod can override it, and it needs NVIDIA's container runtime.
func choose(f *facts) (strategy, reason string) {
	switch {
	case f.kind != cdi.Kind:
		return strategyCDI, "--cdi-kind is set"
	case !f.ready:
		return strategyEnvVar, "the node has no nvidia-cdi-hook, or --host-root does not show it"
	case f.unwritable != nil:
		return strategyEnvVar, "the CDI specification can't be written: " + f.unwritable.Error()
	case f.unknown != nil && f.describedBefore:
		return strategyCDI, "it was chosen before"
	case f.unknown != nil:
		return strategyEnvVar, f.unknown.Error()
	case !cdi.InjectedBy(f.runtime):
		return strategyEnvVar, fmt.Sprintf("%s is not known to support CDI unless it is configured to; if it is, set --device-list-strategy=%s", f.runtime, strategyCDI)
	default:
		return strategyCDI, f.runtime + " supports CDI"
	}
}

// started reports whether it is known which GPUs containers can get.
func (i *injection) started() bool { return i.writer == nil || i.writer.Started() }

// available reports whether containers can get a GPU.
func (i *injection) available(uuid string) bool { return i.writer == nil || i.writer.Has(uuid) }

// changed returns a channel that is closed when other GPUs are available; nil if that never
// changes.
func (i *injection) changed() <-chan struct{} {
	if i.writer == nil {
		return nil
	}
	return i.writer.Changed()
}

// remove removes the description of the GPUs.
func (i *injection) remove() error {
	if i.writer == nil {
		return nil
	}
	return cdi.Remove(i.dir)
}

// run describes the GPUs whenever they change, until ctx ends. A description may wait for
// the driver, so it does not run where the GPUs' health is passed on.
func (i *injection) run(ctx context.Context, gpus *monitor.Monitor) {
	if i.writer == nil {
		return
	}
	reported := ""
	for {
		changed := gpus.Changed()
		problem := ""
		if err := i.writer.Update(gpus.Snapshot()); err != nil {
			problem = err.Error()
			if problem != reported {
				klog.FromContext(ctx).Error(err, "GPUs are not offered to the kubelet: containers could not get them")
			}
		}
		reported = problem
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
