// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package planner is what all plugins of a gpu-scheduler share: it plans a gang when its
// leader's turn comes, remembers where each Pod goes, and takes the actions that follow.
// The plugins translate between it and kube-scheduler.
//
// Scheduling cycles run one after the other, so no two gangs are planned at the same
// time, and a gang only ever holds what a complete plan gives it: there is no hold and
// wait, hence no deadlock between gangs.
package planner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/snapshot"
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

// fallbackRetry is after how long a gang is retried although nothing has happened that
// would make it fit, as far as the scheduler knows.
const fallbackRetry = 30 * time.Second

// Planner plans gangs. Decide, Preempt and Reserve are for the scheduling cycle; the
// other methods may be called at any time.
type Planner struct {
	args         *config.GangArgs
	levels       snapshot.Levels
	logger       klog.Logger
	clock        clock.WithTicker
	handle       fwk.Handle
	registry     *gangs.Registry
	mirror       *mirror.Mirror
	claims       *claims
	explanations *explanationCache
	metrics      *instruments
	// problems are the nodes that give trouble.
	problems *nodeproblems.Monitor
	// evictor stops Pods, and nominator has the nodes that others get for that.
	evictor   *eviction.Evictor
	nominator *eviction.Nominator
	// claimedRooms is what the claims keep, for scheduling cycles.
	claimedRooms claimedRooms
	// turnedAway are Pods that are not ours and that seats, reservations or claims have turned
	// away.
	turnedAwayMu sync.Mutex
	turnedAway   map[types.UID]*corev1.Pod
	// reserving are the nodes with reservations.
	reserving reserving
	// devices follows resource claims.
	devices *resourceclaims.Follower
	// capacity measures how much there is, for the gauges.
	capacity *capacity.Meter
	// synced report whether all that existed at the start is known.
	synced []cache.InformerSynced
	// awaitArrivals is true if a preemptor waits for Pods to be bound.
	awaitArrivals atomic.Bool
	// term is the time in which this process acts for the scheduler.
	term   *takeover.Term
	binder *binding.Binder
	// filters asks kube-scheduler's filters about places.
	filters *filters.Consultant
	// mirrorTidied and cyclesTidied are when what was kept for Pods that are gone was dropped last.
	mirrorTidied, cyclesTidied time.Time
	// mirrorSize is how many bytes the mirror kept then.
	mirrorSize int
	// reports says why gangs wait, and may tell autoscalers about their members.
	reports *unschedulable.Reporter
	// line is the gangs that wait in GPUQueues.
	line      *queues.Line
	decisions decisions
}

// New returns a Planner. It starts watching Pods with the handle's informers, and runs
// until ctx ends.
func New(ctx context.Context, args *config.GangArgs, handle fwk.Handle, leader takeover.Leader, instance string, clock clock.WithTicker) (*Planner, error) {
	logger := klog.FromContext(ctx)
	fencer := binding.NewFencer(handle.ClientSet(), clock, instance)
	p := &Planner{
		args: args, levels: args.Levels(), logger: logger, clock: clock, handle: handle,
		registry: gangs.NewRegistry(gangs.Timing{
			Partial: config.Seconds(args.PartialGangTimeoutSeconds), Again: fallbackRetry, Settle: cacheLag, MaxRefusals: args.MaxRefusals,
			Pauses: gangs.Pauses{Factor: pauseFactor, Shortest: shortestPause, Longest: longestPause},
		}),
		mirror:       mirror.New(logger, clock, args.Levels(), args.NodePools),
		claims:       newClaims(),
		explanations: newExplanationCache(config.Seconds(args.ExplainPeriodSeconds)),
		binder:       binding.NewBinder(handle.ClientSet(), leader, fencer),
	}
	p.nominator = eviction.NewNominator(handle.ClientSet(), logger, p.registry)
	p.term = takeover.NewTerm(p.takeoverSources(leader, fencer))
	p.problems = nodeproblems.NewMonitor(p.problemSources())
	p.decisions = decisions{clock: clock, problems: p.problems}
	p.devices = resourceclaims.NewFollower(p.deviceSources(), cacheLag)
	p.mirror.SetPreferenceTolerance(args.PreferenceTolerance)
	p.registry.Handle(args.GPUResources)
	var err error
	if p.metrics, err = newInstruments(); err != nil {
		return nil, err
	}
	gauges, err := capacity.NewGauges()
	if err != nil {
		return nil, err
	}
	p.filters = filters.NewConsultant(p.filterSources())
	p.line, p.reports = p.newLine(), newReporter(p)
	p.capacity = capacity.NewMeter(p.clock, p.capacitySources(), gauges)
	p.evictor = eviction.NewEvictor(p.evictionSources())
	claims, err := p.devices.Watch(ctx)
	if err != nil {
		return nil, err
	}
	p.synced = append(p.synced, claims...)
	if err = errors.Join(p.watch(), p.problems.Watch(ctx), p.watchQueues(ctx)); err != nil {
		return nil, err
	}
	if err = p.startJournal(ctx, instance); err != nil {
		return nil, err
	}
	go p.run(ctx)
	go p.watchPodGroups(ctx)
	go p.reports.Run(ctx)
	return p, nil
}

// capacitySources are where the gauges have their numbers from.
func (p *Planner) capacitySources() capacity.Sources {
	return capacity.Sources{Mirror: p.mirror, Levels: p.levels, Gangs: p.registry.Count, Claimed: p.claims.count}
}

// filterSources are where the cluster is known from to those who ask filters.
func (p *Planner) filterSources() filters.Sources {
	return filters.Sources{
		Logger: p.logger, Clock: p.clock, Cluster: p.handle, Mirror: p.mirror, Terminating: p.registry.Terminating, HasAllocation: p.devices.HasAllocation, Lag: cacheLag,
	}
}

// takeoverSources are what a Term knows the cluster from.
func (p *Planner) takeoverSources(leader takeover.Leader, fencer *binding.Fencer) takeover.Sources {
	return takeover.Sources{
		Client: p.handle.ClientSet(), Events: p.handle.EventRecorder().WithLogger(p.logger), Clock: p.clock, Logger: p.logger,
		Leader: leader, Fencer: fencer, Registry: p.registry, Mirror: p.mirror,
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

// evictionSources are what an Evictor knows the cluster from, and whom it tells.
func (p *Planner) evictionSources() eviction.Sources {
	return eviction.Sources{
		Client: p.handle.ClientSet(), Informers: p.handle.SharedInformerFactory(), Events: p.handle.EventRecorder().WithLogger(p.logger),
		Clock: p.clock, Logger: p.logger, Registry: p.registry, MayAct: p.term.MayAct, Has: p.capacity.Has, Do: p.do, Activate: p.activate, Wake: p.wake,
		Abandon: func(group string, staying []types.UID) {
			if p.claims.abandon(group, staying) {
				p.wake()
			}
		},
		Count: p.metrics.victims.Inc,
	}
}

// Evictor returns what stops Pods.
func (p *Planner) Evictor() *eviction.Evictor { return p.evictor }

// Nominated returns the node that a Pod is nominated for because others leave it; empty if there is none.
func (p *Planner) Nominated(pod *corev1.Pod) string { return p.nominator.Nominated(pod) }

// serve adds a profile.
func (p *Planner) serve(handle fwk.Handle) {
	p.registry.Serve(handle.ProfileName())
	if runner, ok := handle.(filters.Runner); ok {
		p.filters.Serve(handle.ProfileName(), runner)
	}
}

// Same returns an error if the arguments differ from the Planner's.
func (p *Planner) Same(args *config.GangArgs) error {
	if !reflect.DeepEqual(p.args, args) {
		return fmt.Errorf("arguments of plugin %s: must be the same in all profiles", config.GangPlugin)
	}
	return nil
}

// do carries actions out. It must not be called from PreEnqueue or a queueing
// hint, which hold the queue's lock.
func (p *Planner) do(actions gangs.Actions) {
	if len(actions.Release) > 0 {
		p.mirror.Release(actions.Release)
		p.wake() // what they held may be what others wait for
		p.admitTurnedAway()
	}
	for _, uid := range actions.Reject {
		if waiting := p.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Reject(config.GangPlugin, "another Pod of the gang could not take its place")
		}
	}
	if len(actions.Reject) > 0 {
		p.metrics.aborted.Inc()
	}
	p.activate(actions.Activate)
	if actions.Due {
		p.activateDue()
	}
}

// activateDue queues the Pods whose turn has come.
func (p *Planner) activateDue() { p.activate(p.registry.Due(p.clock.Now(), maxRequeues)) }

func (p *Planner) activate(pods []*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	named := make(map[string]*corev1.Pod, len(pods))
	for _, pod := range pods {
		named[pod.Namespace+"/"+pod.Name] = pod
	}
	p.handle.Activate(p.logger, named)
}

// Gate returns why a Pod may not be queued, or "".
func (p *Planner) Gate(pod *corev1.Pod) string {
	why := p.registry.Gate(pod, p.clock.Now())
	if why != "" && len(pod.Spec.ResourceClaims) > 0 && p.registry.Member(pod.UID) == nil {
		p.RequeueLater(pod) // it may turn out to be kube-scheduler's alone
	}
	return why
}

// Concerns reports whether a Pod is placed by the Planner: it is in a gang, or wants GPUs
// under a name that the arguments list.
func (p *Planner) Concerns(pod *corev1.Pod) bool { return p.registry.Concerns(pod) }

// RankOf returns a Pod's place in the queue.
func (p *Planner) RankOf(pod *corev1.Pod, queued time.Time) gangs.Rank {
	return p.registry.RankOf(pod, queued)
}

// RankOfOthers returns the place in the queue of what the Planner does not place.
func (p *Planner) RankOfOthers(priority int32, queued time.Time) gangs.Rank {
	return p.registry.RankOfOthers(priority, queued)
}

// RequeueLater records that seats, reservations or claims have turned away a Pod that is not
// ours. It is requeued when they end, and from time to time.
func (p *Planner) RequeueLater(pod *corev1.Pod) {
	p.turnedAwayMu.Lock()
	defer p.turnedAwayMu.Unlock()
	if p.turnedAway == nil {
		p.turnedAway = map[types.UID]*corev1.Pod{}
	}
	p.turnedAway[pod.UID] = pod
}

func (p *Planner) admitTurnedAway() {
	p.turnedAwayMu.Lock()
	pods := p.turnedAway
	p.turnedAway = nil
	p.turnedAwayMu.Unlock()
	p.activate(slices.Collect(maps.Values(pods)))
}

// Owns reports whether the scheduler may use a node.
func (p *Planner) Owns(node *corev1.Node) bool { return p.mirror.Owns(node) }

// Confined reports whether the scheduler is confined to some of the nodes.
func (p *Planner) Confined() bool { return len(p.args.NodePools) > 0 }

// Bind binds a Pod to the node of its seat of a plan, with the names of its cards. When
// it returns, the outcome is known. The seat may be taken away at any time, and the Pod
// may even have another one before its Binding is retried: the plan's number tells them
// apart.
func (p *Planner) Bind(ctx context.Context, pod *corev1.Pod, node string, plan uint64) error {
	if member := p.registry.Member(pod.UID); member != nil {
		pod = member.Pod() // the latest version
	}
	return p.binder.Bind(ctx, pod, node, func() (string, error) {
		if seat, hasSeat := p.registry.SeatOf(pod.UID); !hasSeat || seat.Plan != plan || seat.Node != node {
			return "", fmt.Errorf("the Pod no longer has its place on node %s", node)
		}
		return p.mirror.Assignment(pod)
	})
}

// PermitTimeout returns how long a Pod may wait at the barrier.
func (p *Planner) PermitTimeout() time.Duration { return config.Seconds(p.args.PermitTimeoutSeconds) }

// Unready returns why this process, although it leads, does not schedule Pods with GPUs; empty if it does, or if it
// does not lead.
func (p *Planner) Unready() string { return p.term.Unready() }
