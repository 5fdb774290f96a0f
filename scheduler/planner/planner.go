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
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// fallbackRetry is after how long a gang is retried although nothing has happened that
// would make it fit, as far as the scheduler knows.
const fallbackRetry = 30 * time.Second

// Planner plans gangs. Decide, Preempt and Reserve are for the scheduling cycle; the
// other methods may be called at any time.
type Planner struct {
	args         *config.GangArgs
	logger       klog.Logger
	clock        clock.WithTicker
	handle       fwk.Handle
	registry     *gangs.Registry
	mirror       *mirror.Mirror
	kept         *keptNodes
	explanations *explanationCache
	metrics      *instruments
	// problems are the nodes that give trouble.
	problems *nodeproblems.Monitor
	// victimFinder finds Pods that may be preempted, and evictor stops them.
	victimFinder victimFinder
	evictor      *eviction.Evictor
	// gangRooms is what is kept, for scheduling cycles.
	gangRooms  gangRooms
	turnedAway turnedAway
	// reserving are the nodes with reservations.
	reserving reserving
	// devices follows resource claims.
	devices *resourceclaims.Follower
	// capacity measures how much there is, for the gauges.
	capacity *capacity.Meter
	// term is the time in which this process acts for the scheduler.
	term   *takeover.Term
	binder *binding.Binder
	// finder finds places, and filters asks kube-scheduler's filters about them.
	finder  *finder
	filters *filters.Consultant
	// tidier drops what the mirror keeps for Pods that are gone. cyclesTidied is when what scheduling cycles keep was
	// dropped last.
	tidier       mirrorTidier
	cyclesTidied time.Time
	// reports says why gangs wait, and may tell autoscalers about their members.
	reports *unschedulable.Reporter
	// line is the gangs that wait in GPUQueues.
	line      *queues.Line
	decisions decisions
}

// Evictor returns what stops Pods.
func (p *Planner) Evictor() *eviction.Evictor { return p.evictor }

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

// Owns reports whether the scheduler may use a node.
func (p *Planner) Owns(node *corev1.Node) bool { return p.mirror.Owns(node) }

// Confined reports whether the scheduler is confined to some of the nodes.
func (p *Planner) Confined() bool { return len(p.args.NodePools) > 0 }

// PermitTimeout returns how long a Pod may wait at the barrier.
func (p *Planner) PermitTimeout() time.Duration { return config.Seconds(p.args.PermitTimeoutSeconds) }

// Unready returns why this process, although it leads, does not schedule Pods with GPUs; empty if it does, or if it
// does not lead.
func (p *Planner) Unready() string { return p.term.Unready() }

// Devices returns what follows resource claims.
func (p *Planner) Devices() *resourceclaims.Follower { return p.devices }
