// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Attempt describes a gang whose turn has come.
type Attempt struct {
	Group  *Group
	Labels *snapshot.GangLabels
	// Err is why the gang is invalid and can't be placed.
	Err error
	// Waiting are the members that need a place, the one whose turn it is first.
	Waiting []*Member
	// Need is how many of them must get a place; with fewer, none gets one.
	Need int
	// Placed are the Pods of the gang that have a node or a seat.
	Placed []types.UID
	// Refused are nodes that have refused members.
	Refused  []string
	Priority int32
	// Extra is true if as many Pods are placed as have to start together: these ones join
	// if there is room, and no Pod is preempted for them.
	Extra bool
}

// Member returns the member with this UID; nil if there is none.
func (r *Registry) Member(uid types.UID) *Member {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.members[uid]
}

// Bound returns the nodes of all Pods that have one.
func (r *Registry) Bound() map[types.UID]string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	nodes := map[types.UID]string{}
	for uid, m := range r.members {
		if m.bound() {
			nodes[uid] = m.Pod().Spec.NodeName
		}
	}
	return nodes
}

// NominatedFor returns the members that wait for a place and are nominated for a node.
func (r *Registry) NominatedFor(node string) (list []*Member) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for g := range r.unbound {
		for _, m := range g.members {
			if m.waiting() && m.Pod().Status.NominatedNodeName == node {
				list = append(list, m)
			}
		}
	}
	return list
}

// SeatOf returns a Pod's seat; found is false if it has none.
func (r *Registry) SeatOf(uid types.UID) (seat Seat, found bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if m := r.members[uid]; m != nil && m.seat != nil {
		return *m.seat, true
	}
	return Seat{}, false
}

// Attempt returns what to plan when the turn of a Pod without a seat has come; nil if
// there is nothing to plan for it now.
func (r *Registry) Attempt(uid types.UID) *Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.members[uid]; m != nil {
		r.turnstile.leave(m.group)
	}
	attempt := r.look(uid)
	if attempt != nil {
		attempt.Group.reconsidered = false
	}
	return attempt
}

// Look returns what Attempt would, for a Pod whose turn has not come.
func (r *Registry) Look(uid types.UID) *Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.look(uid)
}

func (r *Registry) look(uid types.UID) *Attempt {
	m := r.members[uid]
	if m == nil || !m.waiting() || m.group.plan != nil || !m.group.complete() {
		return nil
	}
	g := m.group
	attempt := &Attempt{Group: g, Priority: priorityOf(m.Pod()), Waiting: []*Member{m}}
	attempt.Labels, attempt.Err = g.spec()
	for _, other := range g.waitingMembers() {
		if other != m {
			attempt.Waiting = append(attempt.Waiting, other)
		}
		attempt.Err = cmp.Or(attempt.Err, other.wrong, other.Err)
	}
	for node := range g.refused {
		attempt.Refused = append(attempt.Refused, node)
	}
	for _, other := range g.members {
		if other.stays() || other.seat != nil {
			attempt.Placed = append(attempt.Placed, other.UID)
		}
	}
	if attempt.Err == nil {
		attempt.Need = min(len(attempt.Waiting), max(1, attempt.Labels.Min-len(attempt.Placed)))
		attempt.Extra = len(attempt.Placed) >= attempt.Labels.Min
	}
	return attempt
}

// Seat gives members their seats, and returns the plan's number and the other Pods to be
// queued. It returns 0, and gives no seats, if a member can no longer take its seat.
func (r *Registry) Seat(g *Group, members []*Member, places []placement.Place, turn types.UID, now time.Time) (number uint64, actions Actions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range members {
		if !m.waiting() || r.members[m.UID] != m {
			return 0, Actions{}
		}
	}
	r.plans++
	r.turnstile.leave(g)
	r.setPlan(g, &plan{number: r.plans, members: members, missing: len(members), since: now})
	for i, m := range members {
		r.setSeat(m, &Seat{Place: places[i], Plan: r.plans, order: i})
		if m.UID != turn {
			actions.Activate = append(actions.Activate, m.Pod())
		}
	}
	return r.plans, actions
}

// Arrival is what follows when a Pod comes to the barrier.
type Arrival struct {
	// Refused is true for a Pod that has no seat of the plan any more, because that was aborted.
	Refused bool
	// Open is true if the Pod need not wait. Allow are the members that need not wait any longer.
	Open    bool
	Allow   []types.UID
	Actions Actions
}

// Barrier records that a Pod has reserved its seat of a plan.
func (r *Registry) Barrier(uid types.UID, number uint64) Arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[uid]
	if m == nil || m.seat == nil || m.seat.Plan != number || m.group.plan == nil || m.group.plan.number != number {
		return Arrival{Refused: true}
	}
	g := m.group
	if !m.seat.reserved {
		m.seat.reserved = true
		g.plan.missing--
	}
	if g.plan.missing > 0 {
		return Arrival{}
	}
	arrival := Arrival{Open: true}
	for _, other := range g.plan.members {
		if other != m {
			arrival.Allow = append(arrival.Allow, other.UID)
		}
	}
	r.setPlan(g, nil) // from here on each is on its own
	r.clearFailures(g)
	arrival.Actions = r.activateLeader(g)
	return arrival
}

// Withdrawal is what follows when a Pod does not go to its seat.
type Withdrawal struct {
	// Aborts is how many plans were aborted since a barrier last opened for the gang; 0 if this one was not.
	Aborts int
	// Fault is the node of the seat if the reason has to do with the Pod there; it is empty for one that waits at the
	// barrier, for the others.
	Fault   string
	Actions Actions
}

// Withdraw records that a Pod does not go to its seat of a plan: it was refused, or could
// not be bound. Before the barrier has opened, that aborts the plan. Calls about an
// earlier plan have no effect.
func (r *Registry) Withdraw(uid types.UID, number uint64) Withdrawal {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[uid]
	if m == nil || m.seat == nil || m.seat.Plan != number {
		return Withdrawal{}
	}
	withdrawal := Withdrawal{Fault: m.seat.Node}
	if m.group.plan != nil && m.group.plan.number == number {
		m.group.aborts++
		withdrawal.Aborts = m.group.aborts
		if m.seat.reserved {
			withdrawal.Fault = ""
		}
	}
	withdrawal.Actions = r.vacate(m).and(r.activateLeader(m.group)).and(r.settle(m))
	return withdrawal
}

// Refuse records that the node of a seat takes no member of the gang although there was
// room. retry is true if another plan should be made at once.
func (r *Registry) Refuse(uid types.UID, number uint64, node string) (retry bool, actions Actions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[uid]
	if m == nil {
		return false, Actions{}
	}
	if m.seat == nil || m.seat.Plan != number {
		return true, Actions{} // of a plan that was given up
	}
	g := m.group
	actions = r.abort(g)
	if g.refused == nil {
		g.refused = map[string]bool{}
	}
	g.refused[node] = true
	g.leader = m
	r.setRetry(g)
	if g.refusals++; g.refusals > r.timing.MaxRefusals {
		g.refusals = 0
		return false, actions
	}
	return true, actions
}

// Pause is Fail for a gang that was refused by too many nodes in a row. Those are not
// planned again after the pause: there may be others.
func (r *Registry) Pause(g *Group, now, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused := g.refused
	r.fail(g, now, until, until)
	g.refused = refused
}

// MarkTried records that a scheduling cycle of a Pod goes to its seat of a plan.
func (r *Registry) MarkTried(uid types.UID, number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.members[uid]; m != nil && m.seat != nil && m.seat.Plan == number {
		m.seat.tried = true
	}
}

// Tried reports whether a scheduling cycle has gone to a Pod's seat of a plan, and the Pod
// has not come to the barrier.
func (r *Registry) Tried(uid types.UID, number uint64) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.members[uid]
	return m != nil && m.seat != nil && m.seat.Plan == number && m.seat.tried && !m.seat.reserved
}

// Overdue returns a Pod of each plan that was made before a time and whose barrier has not
// opened, with the plan's number.
func (r *Registry) Overdue(before time.Time) map[types.UID]uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	overdue := map[types.UID]uint64{}
	for g := range r.planned {
		if g.plan.since.Before(before) {
			overdue[g.plan.members[0].UID] = g.plan.number
		}
	}
	return overdue
}

// FailUntil is Fail for a gang that is to be retried by a given time, even if nothing
// happens.
func (r *Registry) FailUntil(g *Group, began, retryAt, retryBy time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail(g, began, retryAt, retryBy)
}

// Fail records that an attempt found no place for a gang, and when it began. The gang is
// not retried before retryAt.
func (r *Registry) Fail(g *Group, began, retryAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail(g, began, retryAt, began.Add(r.timing.Again))
}

// FailForOther is Fail for a gang that waits for something else than room.
func (r *Registry) FailForOther(g *Group, began, retryAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail(g, began, retryAt, began.Add(r.timing.Again))
	g.retry.awaits = AwaitsOther
}

func (r *Registry) fail(g *Group, began, retryAt, retryBy time.Time) {
	if r.groups[g.Key] != g {
		return // it has gone meanwhile
	}
	r.turnstile.leave(g)
	g.retry.failedAt, g.retry.at, g.retry.queuedAt, g.retry.by, g.retry.endedAt = began, retryAt, time.Time{}, retryBy, time.Time{}
	if g.reconsidered { // the attempt did not see it
		g.retry.at, g.retry.by = began, began
	}
	g.refused, g.refusals, g.retry.hurried, g.retry.awaits = nil, 0, false, AwaitsRoom
	r.elect(g)
	r.change(g)
}

// GangOf returns the gang of a Pod; empty for one that is in no gang or unknown.
func (r *Registry) GangOf(uid types.UID) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if m := r.members[uid]; m != nil && !m.group.Alone {
		return m.group.Key
	}
	return ""
}

// Staying returns the Pods of a gang that have a node or a seat and are not on their way out, in order.
func (r *Registry) Staying(gang string) []*corev1.Pod {
	r.mu.RLock()
	defer r.mu.RUnlock()
	g := r.groups[gang]
	if g == nil {
		return nil
	}
	var members []*Member
	for _, m := range g.members {
		if m.stays() || m.seat != nil {
			members = append(members, m)
		}
	}
	slices.SortFunc(members, compareMembers)
	pods := make([]*corev1.Pod, len(members))
	for i, m := range members {
		pods[i] = m.Pod()
	}
	return pods
}

// Placing reports whether a Pod has a seat and is not bound yet.
func (r *Registry) Placing(uid types.UID) bool {
	_, seated := r.SeatOf(uid)
	return seated
}

// Spare returns how many Pods of a gang that have a node may leave without the others
// having to.
func (r *Registry) Spare(gang string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.groups[gang]
	if g == nil {
		return 0
	}
	spec, err := g.spec()
	if err != nil {
		return 0
	}
	staying, _ := g.count()
	return max(0, staying-spec.Min)
}

// Break marks the Pods of gangs that can't spare those that leave as about to be deleted: all that have a node. It
// returns the ones that are not among those that leave.
func (r *Registry) Break(leaving []types.UID) (others []*corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := map[*Group]int{}
	for _, uid := range leaving {
		if m := r.members[uid]; m != nil && m.stays() && !m.group.Alone {
			lost[m.group]++
		}
	}
	for g, count := range lost {
		spec, err := g.spec()
		if staying, _ := g.count(); err != nil || staying-count >= spec.Min {
			continue
		}
		for _, m := range g.members {
			if m.stays() {
				m.terminating = true
				if !slices.Contains(leaving, m.UID) {
					others = append(others, m.Pod())
				}
			}
		}
		r.touch(g)
	}
	return others
}

// MarkTerminating marks Pods that are about to be deleted, or unmarks them: marked Pods
// no longer count for their gangs, so that their successors wait for each other. Pods that
// are not scheduled by this package can be marked as well, until they are forgotten.
func (r *Registry) MarkTerminating(uids []types.UID, terminating bool) (actions Actions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, uid := range uids {
		m := r.members[uid]
		switch {
		case m != nil:
			m.terminating = terminating
			r.touch(m.group)
			if !terminating {
				actions = actions.and(r.activateLeader(m.group))
			}
		case terminating:
			r.terminating[uid] = true
		default:
			delete(r.terminating, uid)
		}
	}
	return actions
}

// Terminating reports whether a Pod is about to be deleted.
func (r *Registry) Terminating(uid types.UID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.members[uid]
	return m != nil && m.terminating || r.terminating[uid]
}

// Runs reports whether a Pod of a group has a node.
func (r *Registry) Runs(g *Group) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return g.bound > 0
}

// Waits reports whether a group has a member without a node.
func (r *Registry) Waits(group string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	g := r.groups[group]
	return g != nil && g.bound < len(g.members)
}
