// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi/nvidia"
	"falldio.github.io/gpu-controller/nodeagent/node/kube"
)

// injection is how containers get access to their GPUs: by CDI or by an environment variable. That is
// chosen as soon as the node has GPUs and what the choice depends on is known. Before, it is looked
// at again with each poll, and no GPUs are given out: Pods would start without them.
type injection struct {
	// choose looks at the node.
	choose func(context.Context) (*means, error)
	// remove removes the description of the GPUs.
	remove func() error
	// report is told why containers can't get GPUs, once for each reason.
	report func(ctx context.Context, problem error)
	// chosen is nil at first.
	chosen  atomic.Pointer[means]
	decided chan struct{}
	// problem is why containers can't get GPUs; a nil error in it, or none, if they can.
	problem atomic.Pointer[error]
}

// means is what has been chosen.
type means struct {
	// cdiKind is the kind of the CDI devices; empty for the environment variable.
	cdiKind string
	// writer describes the GPUs; nil unless this agent has to.
	writer *cdi.Writer
	// limitsMemory reports whether NVIDIA's hook limits the memory of shares; nil if nothing
	// does.
	limitsMemory func() bool
}

// newInjection removes specifications that are out of use, and returns what will choose.
func newInjection(ctx context.Context, clients *clients, opts *options, c clock.Clock) (*injection, error) {
	options := &opts.injection
	i := &injection{decided: make(chan struct{}), remove: func() error { return cdi.Remove(options.cdiSpecDir) }, report: logProblem}
	if opts.mode == modeObserve {
		i.decide(&means{})
		return i, i.remove()
	}
	// What the DRA driver has described when it gave out the GPUs: see docs/dra.md.
	if err := cdi.DRADriver().RemoveFiles(options.cdiSpecDir); err != nil {
		klog.FromContext(ctx).Error(err, "CDI specifications of the DRA driver can't be removed")
	}
	looked := &looking{opts: opts, clock: c, runtime: func(ctx context.Context) (string, error) {
		return kube.ContainerRuntime(ctx, clients.config, opts.nodeName)
	}}
	i.choose = looked.choose
	return i, nil
}

func logProblem(ctx context.Context, problem error) {
	klog.FromContext(ctx).Error(problem, "GPUs are not offered to the kubelet: containers could not get them")
}

func (i *injection) decide(how *means) {
	i.chosen.Store(how)
	close(i.decided)
}

// looking looks at the node for what the choice depends on.
type looking struct {
	opts  *options
	clock clock.Clock
	// runtime returns the name of the container runtime.
	runtime func(context.Context) (string, error)
	// hookless is true once the hook was missing although NVIDIA's runtime was there.
	hookless bool
}

// lookTimeout bounds how long to wait for the API server to name the container runtime.
const lookTimeout = 5 * time.Second

// choose returns how containers get their GPUs, or an error that says what is missing for that.
func (l *looking) choose(ctx context.Context) (*means, error) {
	options := &l.opts.injection
	located, hooked := options.nvidia.Locate()
	strategy := options.strategy
	if strategy == strategyAuto {
		var reason string
		if strategy, reason = choose(l.gather(ctx, hooked)); strategy == "" {
			return nil, errors.New(reason)
		}
		klog.FromContext(ctx).Info("Chose how containers get their GPUs", "strategy", strategy, "reason", reason)
	}
	if strategy == strategyCDI && options.cdiKind == cdi.Kind && !hooked && !l.opts.Simulated() {
		return nil, fmt.Errorf("--device-list-strategy=%s: %w", strategyCDI, nvidia.ErrNoHook)
	}
	return l.means(ctx, strategy, &located), nil
}

// means returns what the strategy needs.
func (l *looking) means(ctx context.Context, strategy string, located *nvidia.Options) *means {
	options := &l.opts.injection
	limits, err := memoryLimits(l.opts, strategy, located)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Nothing limits the memory of shares of GPUs")
	}
	if strategy == strategyEnvVar || options.cdiKind != cdi.Kind {
		if err := cdi.Remove(options.cdiSpecDir); err != nil {
			klog.FromContext(ctx).Error(err, "A CDI specification that is out of use can't be removed")
		}
		return &means{cdiKind: kindFor(strategy, options.cdiKind)}
	}
	how := &means{cdiKind: options.cdiKind, limitsMemory: func() bool { return limits }}
	var generator cdi.Generator = &cdi.Simulated{Dir: options.cdiSpecDir}
	if !l.opts.Simulated() {
		given := options.nvidia
		given.LimitMemory = limits
		toolkit := nvidia.New(given, l.opts.NVMLLibrary, klog.FromContext(ctx))
		generator, how.limitsMemory = toolkit, toolkit.LimitsMemory
	}
	how.writer = cdi.NewWriter(options.cdiSpecDir, generator, l.clock)
	return how
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
	// hooked is false if what the specification of NVIDIA's GPUs needs is not there, and withRuntime
	// true if NVIDIA's container runtime has been there without it for a while: its installation
	// takes a moment.
	hooked, withRuntime bool
	// runtime is the container runtime as the Node names it; unknown if that can't be read.
	runtime string
	unknown error
	// describedBefore is true if there is a specification of an earlier run of the agent.
	describedBefore bool
	// unwritable is why the specification can't be written, or nil.
	unwritable error
}

// gather gathers the facts. It asks the API server only if it has to.
func (l *looking) gather(ctx context.Context, hooked bool) *facts {
	options := &l.opts.injection
	f := &facts{kind: options.cdiKind, hooked: l.opts.Simulated() || hooked}
	if f.kind != cdi.Kind {
		return f
	}
	if !f.hooked {
		f.withRuntime = l.hookless && options.nvidia.HasRuntime()
		l.hookless = options.nvidia.HasRuntime()
		return f
	}
	_, err := os.Stat(cdi.Path(options.cdiSpecDir))
	f.describedBefore = err == nil
	f.unwritable = cdi.Writable(options.cdiSpecDir)
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	f.runtime, f.unknown = l.runtime(ctx)
	return f
}

// choose chooses how containers get their GPUs, and says why; or it says what is missing. An
// environment variable is the fallback: a Pod can override it, and it needs NVIDIA's container
// runtime.
func choose(f *facts) (strategy, reason string) {
	switch {
	case f.kind != cdi.Kind:
		return strategyCDI, "--cdi-kind is set"
	case f.withRuntime:
		return strategyEnvVar, "the node has NVIDIA's container runtime, but no nvidia-cdi-hook"
	case !f.hooked:
		return "", fmt.Sprintf("NVIDIA's Container Toolkit is not on the node, or --host-root and --nvidia-cdi-hook-path don't show it; if its runtime is elsewhere, set --device-list-strategy=%s", strategyEnvVar)
	case f.unwritable != nil:
		return strategyEnvVar, "the CDI specification can't be written: " + f.unwritable.Error()
	case f.unknown != nil && f.describedBefore:
		return strategyCDI, "it was chosen before"
	case f.unknown != nil:
		return "", f.unknown.Error()
	case !cdi.InjectedBy(f.runtime):
		return strategyEnvVar, fmt.Sprintf("%s is not known to support CDI unless it is configured to; if it is, set --device-list-strategy=%s", f.runtime, strategyCDI)
	default:
		return strategyCDI, f.runtime + " supports CDI"
	}
}

// kind returns the kind of the CDI devices; empty for the environment variable.
func (i *injection) kind() string {
	if how := i.chosen.Load(); how != nil {
		return how.cdiKind
	}
	return ""
}

// limitsMemory reports whether NVIDIA's hook limits the memory of shares.
func (i *injection) limitsMemory() bool {
	how := i.chosen.Load()
	return how != nil && how.limitsMemory != nil && how.limitsMemory()
}

// started reports whether it is known which GPUs containers can get.
func (i *injection) started() bool {
	how := i.chosen.Load()
	return how != nil && (how.writer == nil || how.writer.Started())
}

// available reports whether containers can get a GPU.
func (i *injection) available(uuid string) bool {
	how := i.chosen.Load()
	return how != nil && (how.writer == nil || how.writer.Has(uuid))
}

// changed returns a channel that is closed when other GPUs are available; nil if that never
// changes.
func (i *injection) changed() <-chan struct{} {
	how := i.chosen.Load()
	switch {
	case how == nil:
		return i.decided
	case how.writer == nil:
		return nil
	default:
		return how.writer.Changed()
	}
}

// ready returns why containers can't get the node's GPUs, or nil.
func (i *injection) ready() error {
	if problem := i.problem.Load(); problem != nil && *problem != nil {
		return fmt.Errorf("containers can't get the GPUs of the node: %w", *problem)
	}
	return nil
}

// note keeps why containers can't get GPUs, and reports it if that has changed.
func (i *injection) note(ctx context.Context, problem error) {
	before := i.problem.Swap(&problem)
	if problem != nil && (before == nil || *before == nil || (*before).Error() != problem.Error()) {
		i.report(ctx, problem)
	}
}

// run chooses, and then describes the GPUs whenever they change, until ctx ends. A description may
// wait for the driver, so it does not run where the GPUs' health is passed on.
func (i *injection) run(ctx context.Context, gpus *monitor.Monitor) {
	for {
		changed := gpus.Changed()
		i.update(ctx, gpus.Snapshot())
		if how := i.chosen.Load(); how != nil && how.writer == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// update does what is due for these GPUs. A node without any needs nothing.
func (i *injection) update(ctx context.Context, snapshot *gpu.Snapshot) {
	if i.chosen.Load() == nil && len(snapshot.Devices) > 0 {
		how, err := i.choose(ctx)
		if err != nil {
			i.note(ctx, err)
			return
		}
		i.note(ctx, nil)
		i.decide(how)
	}
	if how := i.chosen.Load(); how != nil && how.writer != nil {
		i.note(ctx, how.writer.Update(snapshot))
	}
}
