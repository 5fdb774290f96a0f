// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
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
	// wokenAt is when there was more room for the last time.
	wokenAt time.Time
}

// NewRegistry returns a Registry that knows no Pods.
func NewRegistry(timing Timing) *Registry {
	return &Registry{timing: timing, members: map[types.UID]*Member{}, groups: map[string]*Group{}, profiles: map[string]bool{}}
}

// Serve adds a name under which this process schedules. The gangs of others are only
// known so that they are not torn apart.
func (r *Registry) Serve(schedulerName string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.profiles[schedulerName] = true
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

// Concerns is true if a Pod is scheduled by this package: it wants GPUs or is in
// a gang.
func Concerns(pod *corev1.Pod) bool {
	if labels, err := snapshot.Gang(pod); labels != nil || err != nil {
		return true
	}
	return snapshot.WantsGPUs(pod)
}

// Observe tells of a Pod that is there, or has changed.
func (r *Registry) Observe(pod *corev1.Pod) Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.know(pod)
	if m == nil {
		return Actions{}
	}
	if !m.announced {
		m.announced = true
		return r.lead(m.group)
	}
	wasBound, wasEnding := m.bound(), m.Pod.DeletionTimestamp != nil
	if wasBound && pod.Spec.NodeName == "" {
		return Actions{} // older than what is known
	}
	m.Pod = pod
	switch {
	case !wasBound && m.bound():
		return r.arrived(m)
	case !wasEnding && pod.DeletionTimestamp != nil && !m.bound():
		return r.leave(m).and(r.lead(m.group))
	}
	return Actions{}
}

// know returns the member that a Pod is; nil if it does not concern the registry.
func (r *Registry) know(pod *corev1.Pod) *Member {
	if m := r.members[pod.UID]; m != nil {
		return m
	}
	if !Concerns(pod) {
		return nil
	}
	m := newMember(pod)
	m.group = r.groupOf(m)
	m.group.join(m)
	r.members[pod.UID] = m
	return m
}

func (r *Registry) groupOf(m *Member) *Group {
	key, alone := string(m.UID()), m.said == nil
	if !alone {
		key = m.said.Name
	}
	g := r.groups[key]
	if g == nil {
		g = &Group{
			Key: key, Alone: alone, Since: m.Pod.CreationTimestamp.Time,
			foreign: !r.profiles[m.Pod.Spec.SchedulerName], members: map[types.UID]*Member{},
		}
		r.groups[key] = g
	}
	return g
}

// lead returns the leader to be queued, if the gang is ready for that.
func (r *Registry) lead(g *Group) Actions {
	if g.Alone || g.foreign {
		return Actions{} // is queued by itself
	}
	if g.elect(); g.leader == nil || g.plan != nil || !g.complete() {
		return Actions{}
	}
	return Actions{Activate: []*corev1.Pod{g.leader.Pod}}
}

// arrived is called when a Pod got its node.
func (r *Registry) arrived(m *Member) Actions {
	g := m.group
	g.bound++
	early := m.seat != nil && g.plan != nil && g.plan.number == m.seat.Plan
	m.seat = nil
	if !early {
		return Actions{}
	}
	return r.abort(g).and(r.lead(g)) // somebody else has bound it
}

// Forget tells of a Pod that is gone or has ended.
func (r *Registry) Forget(uid types.UID) Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[uid]
	if m == nil {
		return Actions{}
	}
	actions := r.leave(m)
	g := m.group
	g.drop(m)
	delete(r.members, uid)
	if g.leader == m {
		g.leader = nil
	}
	if len(g.members) == 0 {
		r.succeed(g)
		delete(r.groups, g.Key)
	}
	return actions.and(r.lead(g))
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
		m.seat = nil
		return Actions{Release: []types.UID{m.UID()}}
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
			actions.Reject = append(actions.Reject, m.UID())
		}
		actions.Release = append(actions.Release, m.UID())
		m.seat = nil
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
	g.refused, g.refusals = nil, 0
}

// and joins what has to be done.
func (a Actions) and(b Actions) Actions {
	return Actions{
		Activate: append(a.Activate, b.Activate...),
		Reject:   append(a.Reject, b.Reject...),
		Release:  append(a.Release, b.Release...),
	}
}
