// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Timing says how patient gangs are.
type Timing struct {
	// Partial is how long a gang may have fewer Pods on nodes than have to start
	// together, before those that are there leave.
	Partial time.Duration
	// Again is after how long a gang is tried again though nothing has happened
	// that would make it fit.
	Again time.Duration
	// Settle is how long it takes at most until an attempt sees what Wake told of.
	Settle time.Duration
	// MaxRefusals is how many nodes may refuse members of a gang in a row before
	// it has to wait like one that does not fit.
	MaxRefusals int
}

// Registry has all gangs of one scheduler. It is safe for concurrent use; what it
// returns has to be done without holding any lock of the scheduling queue.
type Registry struct {
	timing Timing

	mu      sync.RWMutex
	members map[types.UID]*Member
	groups  map[string]*Group
	plans   uint64
	// failing counts the groups whose last attempt failed.
	failing int
	// profiles are the names under which this process schedules.
	profiles map[string]bool
	// started is true once all Pods are known that there were at the start.
	started bool
	// wokenAt is when there was more room for the last time.
	wokenAt time.Time
}

// NewRegistry returns a Registry that knows no Pods.
func NewRegistry(timing Timing) *Registry {
	return &Registry{timing: timing, members: map[types.UID]*Member{}, groups: map[string]*Group{}, profiles: map[string]bool{}}
}

// Serve adds a name under which this process schedules, before any Pod is told.
func (r *Registry) Serve(schedulerName string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.profiles[schedulerName] = true
}

// Serves reports whether this process schedules under a name.
func (r *Registry) Serves(schedulerName string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.profiles[schedulerName]
}

// Actions are what has to be done after a change.
type Actions struct {
	// Activate are Pods to be moved into the scheduling queue now.
	Activate []*corev1.Pod
	// Reject are Pods to be turned away from the barrier.
	Reject []types.UID
	// Release are Pods whose seats are no longer theirs.
	Release []types.UID
}

// and joins what has to be done.
func (a Actions) and(b Actions) Actions {
	return Actions{
		Activate: append(a.Activate, b.Activate...),
		Reject:   append(a.Reject, b.Reject...),
		Release:  append(a.Release, b.Release...),
	}
}

// Concerns reports whether a Pod is scheduled by this package: it wants GPUs or is in
// a gang.
func Concerns(pod *corev1.Pod) bool {
	if labels, err := snapshot.Gang(pod); labels != nil || err != nil {
		return true
	}
	return snapshot.WantsGPUs(pod)
}

// Start tells that all Pods are known that there were at the start. Before, nobody
// is queued: a gang that runs already would look like a new one.
func (r *Registry) Start() Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
	actions := Actions{}
	for _, g := range r.groups {
		actions = actions.and(r.lead(g))
	}
	return actions
}

// Observe tells of a Pod that is there, or has changed.
func (r *Registry) Observe(pod *corev1.Pod) Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[pod.UID]
	if m == nil {
		return r.add(pod)
	}
	before := m.Pod()
	wasBound, wasEnding, wasGated := m.bound(), m.ending(), len(before.Spec.SchedulingGates) > 0
	if wasBound && pod.Spec.NodeName == "" {
		return Actions{} // older than what is known
	}
	if !wasBound && pod.Spec.NodeName == "" && needsOthers(before, pod) {
		return r.forget(m).and(r.add(pod))
	}
	m.pod.Store(pod)
	m.group.counted = false
	switch {
	case !wasBound && m.bound():
		return r.arrived(m)
	case !wasEnding && m.ending() && !m.bound():
		return r.leave(m).and(r.lead(m.group))
	case wasGated && len(pod.Spec.SchedulingGates) == 0:
		return r.lead(m.group)
	}
	return Actions{}
}

func (r *Registry) add(pod *corev1.Pod) Actions {
	if !Concerns(pod) {
		return Actions{}
	}
	m := newMember(pod, r.profiles[pod.Spec.SchedulerName])
	m.group = r.groupOf(m)
	m.group.join(m)
	r.members[pod.UID] = m
	return r.lead(m.group)
}

func (r *Registry) groupOf(m *Member) *Group {
	key, alone := string(m.UID), m.labels == nil
	if !alone {
		key = m.labels.Name
	}
	g := r.groups[key]
	if g == nil {
		g = &Group{Key: key, Alone: alone, Since: m.Pod().CreationTimestamp.Time, members: map[types.UID]*Member{}}
		r.groups[key] = g
	}
	return g
}

// lead returns the leader to be queued, if the gang is ready for that.
func (r *Registry) lead(g *Group) Actions {
	if !r.started {
		return Actions{}
	}
	if g.elect(); g.leader == nil || g.plan != nil || !g.complete() {
		return Actions{}
	}
	return Actions{Activate: []*corev1.Pod{g.leader.Pod()}}
}

// arrived is called when a Pod got its node.
func (r *Registry) arrived(m *Member) Actions {
	g, seat := m.group, m.seat
	g.bound++
	actions := Actions{}
	switch {
	case seat == nil: // somebody else has bound it
	case g.plan != nil && g.plan.number == seat.Plan: // the same
		actions = r.abort(g)
	default:
		g.sit(m, nil)
		if m.Pod().Spec.NodeName != seat.Node {
			actions.Release = []types.UID{m.UID}
		} else if g.bound > 1 {
			return actions // nothing has changed for the others
		}
	}
	return actions.and(r.lead(g))
}

// Forget tells of a Pod that is gone or has ended.
func (r *Registry) Forget(uid types.UID) Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[uid]
	if m == nil {
		return Actions{}
	}
	return r.forget(m)
}

func (r *Registry) forget(m *Member) Actions {
	actions := r.leave(m)
	if m.bound() && !slices.Contains(actions.Release, m.UID) {
		// A Pod may be bound and gone before the scheduler ever looks at its node
		// again: nobody else would give its seat back.
		actions.Release = append(actions.Release, m.UID)
	}
	g := m.group
	g.drop(m)
	delete(r.members, m.UID)
	if len(g.members) == 0 {
		r.succeed(g)
		delete(r.groups, g.Key)
		return actions
	}
	if g.leader != nil && g.leader != m && len(actions.Release) == 0 {
		return actions // nothing has changed for the others
	}
	actions = actions.and(r.lead(g))
	if g.leader == nil {
		r.succeed(g) // nobody is left who waits
	}
	return actions
}

// leave takes a Pod that is on its way out off its gang's plan.
func (r *Registry) leave(m *Member) Actions {
	g := m.group
	switch {
	case m.seat == nil:
		return Actions{}
	case g.plan != nil && g.plan.number == m.seat.Plan:
		return r.abort(g)
	default:
		g.sit(m, nil)
		return Actions{Release: []types.UID{m.UID}}
	}
}

// abort takes all seats of a plan back whose barrier has not opened.
func (r *Registry) abort(g *Group) Actions {
	actions := Actions{}
	if g.plan == nil {
		return actions
	}
	for _, m := range g.plan.members {
		if m.seat == nil || m.seat.Plan != g.plan.number {
			continue
		}
		if m.seat.reserved {
			actions.Reject = append(actions.Reject, m.UID)
		}
		actions.Release = append(actions.Release, m.UID)
		g.sit(m, nil)
	}
	g.plan = nil
	return actions
}

// succeed forgets a group's failures.
func (r *Registry) succeed(g *Group) {
	if !g.failedAt.IsZero() {
		r.failing--
	}
	g.failedAt, g.firstFailure, g.retryAt, g.lookedAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	g.refused, g.refusals, g.aborts = nil, 0, 0
}
