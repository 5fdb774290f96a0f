// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/scheduler/binding"
	"falldio.github.io/gpu-controller/scheduler/capacity"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/eviction"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
	"falldio.github.io/gpu-controller/scheduler/nodeproblems"
	"falldio.github.io/gpu-controller/scheduler/queues"
	"falldio.github.io/gpu-controller/scheduler/resourceclaims"
	"falldio.github.io/gpu-controller/scheduler/takeover"
	"falldio.github.io/gpu-controller/scheduler/unschedulable"
)

// New returns a Planner. It starts watching Pods with the handle's informers, and runs
// until ctx ends.
func New(ctx context.Context, args *config.GangArgs, handle fwk.Handle, leader takeover.Leader, instance string, clock clock.WithTicker) (*Planner, error) {
	metrics, err := newInstruments()
	if err != nil {
		return nil, err
	}
	p := assemble(args, handle, clock, klog.FromContext(ctx), metrics)
	connect(p, leader, instance)
	synced, err := p.follow(ctx)
	if err != nil {
		return nil, err
	}
	if err = p.startJournal(ctx, instance); err != nil {
		return nil, err
	}
	go p.run(ctx, synced)
	go p.watchPodGroups(ctx)
	go p.reports.Run(ctx)
	return p, nil
}

// assemble returns a Planner that knows nothing of the cluster yet. It lacks what connect adds.
func assemble(args *config.GangArgs, handle fwk.Handle, clock clock.WithTicker, logger klog.Logger, metrics *instruments) *Planner {
	p := &Planner{
		args: args, logger: logger, clock: clock, handle: handle, metrics: metrics,
		registry: gangs.NewRegistry(gangs.Timing{
			Partial: config.Seconds(args.PartialGangTimeoutSeconds), Again: fallbackRetry, Settle: cacheLag, MaxRefusals: args.MaxRefusals,
			Pauses: gangs.Pauses{Factor: pauseFactor, Shortest: shortestPause, Longest: longestPause},
		}),
		mirror:       mirror.New(logger, clock, args.Levels(), args.NodePools),
		kept:         newKeptNodes(),
		explanations: newExplanationCache(config.Seconds(args.ExplainPeriodSeconds)),
	}
	p.mirror.SetPreferenceTolerance(args.PreferenceTolerance)
	p.registry.Handle(args.GPUResources)
	p.tidier = mirrorTidier{mirror: p.mirror, registry: p.registry}
	p.capacity = capacity.NewMeter(p.clock, p.capacitySources(), metrics.capacity)
	return p
}

// connect gives a Planner the parts that ask and change the cluster, each after those that it needs.
func connect(p *Planner, leader takeover.Leader, instance string) {
	fencer := binding.NewFencer(p.handle.ClientSet(), p.clock, instance)
	p.binder = binding.NewBinder(p.handle.ClientSet(), leader, fencer)
	p.term = takeover.NewTerm(p.takeoverSources(leader, fencer))
	p.problems = nodeproblems.NewMonitor(p.problemSources())
	p.decisions = decisions{clock: p.clock, problems: p.problems}
	p.devices = resourceclaims.NewFollower(p.deviceSources(), cacheLag)
	p.filters = filters.NewConsultant(p.filterSources())
	p.line, p.reports = p.newLine(), newReporter(p)
	p.finder = p.newFinder()
	p.evictor = eviction.NewEvictor(p.evictionSources())
	p.victimFinder = p.newVictimFinder()
}

// follow follows the objects of the cluster until ctx ends. It returns what reports whether all that existed before is
// known.
func (p *Planner) follow(ctx context.Context) ([]cache.InformerSynced, error) {
	pods, errPods := p.watch()
	claims, errClaims := p.devices.Watch(ctx)
	queues, errQueues := p.watchQueues(ctx)
	return slices.Concat(pods, claims, queues), errors.Join(errPods, errClaims, errQueues, p.problems.Watch(ctx))
}

// takeoverSources are what a Term knows the cluster from.
func (p *Planner) takeoverSources(leader takeover.Leader, fencer *binding.Fencer) takeover.Sources {
	return takeover.Sources{
		Client: p.handle.ClientSet(), Events: p.handle.EventRecorder().WithLogger(p.logger), Clock: p.clock, Logger: p.logger,
		Leader: leader, Fencer: fencer, Registry: p.registry, Mirror: p.mirror, Do: p.do, CountForeign: p.metrics.foreign.Inc,
	}
}

// problemSources are what a Monitor of nodes knows the cluster from.
func (p *Planner) problemSources() nodeproblems.Sources {
	return nodeproblems.Sources{
		Client: p.handle.ClientSet(), Nodes: p.handle.SharedInformerFactory().Core().V1().Nodes().Lister(),
		Events: p.handle.EventRecorder().WithLogger(p.logger), Clock: p.clock, Logger: p.logger,
		Registry: p.registry, Has: p.mirror.Has, MayAct: p.term.MayAct,
	}
}

// deviceSources are what is told of resource claims, and from where they are known.
func (p *Planner) deviceSources() resourceclaims.Sources {
	return resourceclaims.Sources{
		Client: p.handle.ClientSet(), Informers: p.handle.SharedInformerFactory(), Manager: p.handle.SharedDRAManager(), Clock: p.clock, Logger: p.logger,
		Term: p.term, Registry: p.registry, Do: p.do, Forget: p.forgetPod, Activate: p.activate, Wake: p.wake, WakeAll: p.wakeAll,
	}
}

// filterSources are where the cluster is known from to those who ask filters.
func (p *Planner) filterSources() filters.Sources {
	return filters.Sources{
		Logger: p.logger, Clock: p.clock, Cluster: p.handle, Mirror: p.mirror, Terminating: p.registry.Terminating, HasAllocation: p.devices.HasAllocation, Lag: cacheLag,
	}
}

// newLine returns the queues.Line of the gangs that the Planner plans.
func (p *Planner) newLine() *queues.Line {
	return queues.NewLine(queues.Sources{
		Args: p.args, Clock: p.clock, Logger: p.logger, Registry: p.registry, Mirror: p.mirror, Filters: p.filters, Namespace: p.namespace,
	}, lineCore{p})
}

// newFinder returns what finds places.
func (p *Planner) newFinder() *finder {
	return &finder{
		mirror: p.mirror, filters: p.filters, line: p.line, problems: p.problems, handles: p.registry.Handles, levels: p.args.Levels(), logger: p.logger,
	}
}

// newVictimFinder returns what finds Pods to preempt.
func (p *Planner) newVictimFinder() victimFinder {
	return victimFinder{mirror: p.mirror, registry: p.registry, line: p.line, filters: p.filters, finder: p.finder, evictor: p.evictor, clock: p.clock}
}

// newReporter returns the Reporter that says why gangs wait.
func newReporter(p *Planner) *unschedulable.Reporter {
	return unschedulable.New(unschedulable.Options{
		Client: p.handle.ClientSet(), Clock: p.clock, Gangs: p.registry, Members: p.args.ReportUnschedulableMembers,
		MayWrite: p.term.MayAct, HasProspect: p.makingRoom,
	})
}

// capacitySources are where the gauges have their numbers from.
func (p *Planner) capacitySources() capacity.Sources {
	return capacity.Sources{Mirror: p.mirror, Levels: p.args.Levels(), Gangs: p.registry.Count, KeptNodes: p.kept.count}
}

// evictionSources are what an Evictor knows the cluster from, and whom it tells.
func (p *Planner) evictionSources() eviction.Sources {
	return eviction.Sources{
		Client: p.handle.ClientSet(), Informers: p.handle.SharedInformerFactory(), Events: p.handle.EventRecorder().WithLogger(p.logger),
		Clock: p.clock, Logger: p.logger, Registry: p.registry, MayAct: p.term.MayAct, Has: p.capacity.Has, Do: p.do, Activate: p.activate, Wake: p.wake,
		Abandon: func(group string, staying []types.UID) {
			if p.kept.abandon(group, staying) {
				p.wake()
			}
		},
		Count: p.metrics.victims.Inc, Partial: config.Seconds(p.args.PartialGangTimeoutSeconds),
	}
}

// run does the periodic work until ctx ends, once all is known that existed at the start.
func (p *Planner) run(ctx context.Context, synced []cache.InformerSynced) {
	if !cache.WaitForNamedCacheSyncWithContext(ctx, synced...) {
		return
	}
	p.followFilters(ctx)
	if !p.term.Begin(ctx) {
		return
	}
	go p.capacity.Run(ctx, p.term.WasCurrent) // beside the rest: no gang has to wait for it
	go p.line.Estimate(ctx, p.term.MayAct)
	requeue, maintenance := p.clock.NewTicker(requeuePeriod), p.clock.NewTicker(maintenancePeriod)
	defer requeue.Stop()
	defer maintenance.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-requeue.C():
			p.line.OrderIfDue()
			p.activateDue()
		case <-maintenance.C():
			p.maintain(ctx)
		}
	}
}
