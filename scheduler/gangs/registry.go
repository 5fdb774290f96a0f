// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Timing configures timeouts and retries.
type Timing struct {
	// Partial is how long a gang may have fewer Pods on nodes than have to start together,
	// before those are evicted.
	Partial time.Duration
	// Again is after how long a gang is retried although nothing has happened that would
	// make it fit.
	Again time.Duration
	// Settle is how long it takes at most until an attempt sees the change that Wake
	// recorded.
	Settle time.Duration
	// MaxRefusals is how many nodes may refuse members of a gang in a row before
	// it has to wait like one that does not fit.
	MaxRefusals int
	// Pauses is how long gangs pause after attempts that find no place.
	Pauses Pauses
}

// Registry holds all gangs of one scheduler. It is safe for concurrent use; the Actions
// that it returns must be taken without holding any lock of the scheduling queue.
type Registry struct {
	timing Timing
	// handled are the resources that Pods ask for to be scheduled by this package; nil for
	// all that count GPUs.
	handled []corev1.ResourceName
	// claimed counts the GPUs that a Pod asks for with resource claims; nil if none can. Known is false while that is
	// being found out.
	claimed func(*corev1.Pod) (count int, known bool)

	mu      sync.RWMutex
	members map[types.UID]*Member
	groups  map[string]*Group
	plans   uint64
	// terminating are Pods that are about to be deleted and are no members: they have no GPUs.
	terminating map[types.UID]bool
	// retries are the groups that wait for another attempt.
	retries *retries
	// counts are the gangs by state, but for those in changed. mixed are those of which
	// some members have a node and others don't, and some that were so a moment ago.
	counts         [states]int
	changed, mixed map[*Group]struct{}
	// unbound are the groups of which a member has no node: only these can wait for a place.
	unbound map[*Group]struct{}
	// planned are those that have a plan whose barrier has not opened.
	planned   map[*Group]struct{}
	podGroups podGroups
	sharing   sharing
	// profiles are the names under which this process schedules.
	profiles map[string]bool
	// started is true once all Pods that existed at the start are known.
	started   bool
	turnstile turnstile
}

// NewRegistry returns an empty Registry.
func NewRegistry(timing Timing) *Registry {
	return &Registry{
		timing: timing, members: map[types.UID]*Member{}, groups: map[string]*Group{}, podGroups: newPodGroups(), sharing: newSharing(), profiles: map[string]bool{},
		terminating: map[types.UID]bool{},
		retries:     newRetries(timing), turnstile: newTurnstile(),
		changed: map[*Group]struct{}{}, mixed: map[*Group]struct{}{}, unbound: map[*Group]struct{}{}, planned: map[*Group]struct{}{},
	}
}

// Serve adds a name under which this process schedules. It must be called before any Pod
// is observed.
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

// Handle confines the Registry to Pods that ask for GPUs under these names, for a share of one, or
// for MIG slices of those who give out GPUs under these names: others are kube-scheduler's, unless
// they are in a gang. Without a call it handles all. It must be called before any other method.
func (r *Registry) Handle(names []corev1.ResourceName) {
	r.handled = append([]corev1.ResourceName{v1.ResourceGPUPercent, snapshot.ResourceClaims}, names...)
}

// CountClaims has the Registry handle Pods that ask for GPUs with resource claims. count returns
// how many whole ones a Pod asks for. It must not take long; if the number has to be found out, a Pod that
// is new is not known until it is observed again. CountClaims must be called before any other method.
func (r *Registry) CountClaims(count func(*corev1.Pod) (count int, known bool)) { r.claimed = count }

// Handles reports whether the Registry places Pods that ask for GPUs under a name.
func (r *Registry) Handles(name corev1.ResourceName) bool {
	return r.handled == nil || slices.Contains(r.handled, name)
}

// Actions are what has to be done after a change.
type Actions struct {
	// Activate are Pods to be moved into the scheduling queue now.
	Activate []*corev1.Pod
	// Due is true if there may be more Pods to be moved there: those that Due returns.
	Due bool
	// Reject are Pods to be turned away from the barrier.
	Reject []types.UID
	// Release are Pods whose seats are no longer theirs.
	Release []types.UID
}

// and combines actions.
func (a Actions) and(b Actions) Actions {
	return Actions{
		Activate: append(a.Activate, b.Activate...),
		Due:      a.Due || b.Due,
		Reject:   append(a.Reject, b.Reject...),
		Release:  append(a.Release, b.Release...),
	}
}

// Concerns reports whether a Pod wants GPUs as an extended resource, under whatever name, or says
// that it is in a gang.
func Concerns(pod *corev1.Pod) bool {
	return snapshot.InGroup(pod) || snapshot.WantsGPUs(pod)
}

// Concerns reports whether a Pod is scheduled by this package: it is in a gang, or wants GPUs
// under a name that the Registry handles. It is called for every Pod in every scheduling
// cycle.
func (r *Registry) Concerns(pod *corev1.Pod) bool {
	if r.concernsAsItIs(pod) {
		return true
	}
	if len(pod.Spec.ResourceClaims) == 0 {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.members[pod.UID] != nil
}

// concernsAsItIs is Concerns as far as the Pod's resource claims don't matter.
func (r *Registry) concernsAsItIs(pod *corev1.Pod) bool {
	if r.handled == nil {
		return Concerns(pod)
	}
	return snapshot.InGroup(pod) || snapshot.WantsAny(pod, r.handled...) || r.handlesSlices(pod)
}

// handlesSlices reports whether a Pod asks for MIG slices that the Registry handles.
func (r *Registry) handlesSlices(pod *corev1.Pod) bool {
	if slices.Contains(r.handled, v1.ResourceNVIDIAGPU) {
		return snapshot.WantsSlices(pod)
	}
	return snapshot.WantsOurSlices(pod)
}

// Start records that all Pods that existed at the start are known. Before that, no Pod is
// queued: a gang that runs already would look like a new one.
func (r *Registry) Start() Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
	actions := Actions{}
	for _, g := range r.groups {
		g.Since = g.oldest()
		actions = actions.and(r.activateLeader(g))
	}
	return actions
}

// Observe records a Pod that was added or has changed.
func (r *Registry) Observe(pod *corev1.Pod) Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[pod.UID]
	if m == nil {
		return r.add(pod)
	}
	before := m.Pod()
	if m.bound() && pod.Spec.NodeName == "" {
		return Actions{} // stale
	}
	if !m.bound() && pod.Spec.NodeName == "" && r.needsOtherwise(m, pod) {
		if !m.binding() {
			return r.renew(m, pod)
		}
		m.outdated = true // its Binding may be on its way, so its seat must not be released
	}
	r.store(m, pod)
	return r.podChanged(m, before)
}

// podChanged is called when the Pod of a member has changed, which needs the same.
func (r *Registry) podChanged(m *Member, before *corev1.Pod) Actions {
	after := m.Pod()
	switch {
	case before.Spec.NodeName == "" && m.bound():
		return r.podBound(m).and(r.settle(m))
	case before.DeletionTimestamp == nil && m.deleting() && !m.bound():
		return r.vacate(m).and(r.activateLeader(m.group)).and(r.settle(m))
	case len(before.Spec.SchedulingGates) > 0 && len(after.Spec.SchedulingGates) == 0:
		return r.activateLeader(m.group)
	case !m.bound() && m.seat == nil && !maps.Equal(before.Labels, after.Labels):
		r.tryAgain(m.group)
	}
	return Actions{}
}

// tryAgain has a group tried again once it has rested, although nothing but itself has changed: filters and queues look
// at the labels of its Pods, too.
func (r *Registry) tryAgain(g *Group) {
	g.reconsidered = true // an attempt that is being made may not see it
	if !g.retry.failedAt.IsZero() {
		g.retry.by = g.retry.at
		r.setRetry(g)
	}
}

// store records a member's Pod as it is now.
func (r *Registry) store(m *Member, pod *corev1.Pod) {
	stood := m.standing()
	m.pod.Store(pod)
	if m.standing() != stood {
		r.touch(m.group)
	}
}

// renew makes a Pod whose needs have changed another member. What is known of failed
// attempts no longer counts: the gang needs something else now.
func (r *Registry) renew(m *Member, pod *corev1.Pod) Actions {
	actions := r.forget(m).and(r.add(pod))
	if next := r.members[pod.UID]; next != nil {
		next.group.reconsidered = true
		r.clearFailures(next.group)
	}
	return actions
}

func (r *Registry) add(pod *corev1.Pod) Actions {
	claimed, known := r.claimedBy(pod)
	if !known || claimed == 0 && !r.concernsAsItIs(pod) {
		return Actions{}
	}
	return r.admit(newMember(pod, claimed, r.profiles[pod.Spec.SchedulerName]))
}

// needsOtherwise reports whether a Pod without a node has become another member: by what it
// asks for, or by what its resource claims do.
func (r *Registry) needsOtherwise(m *Member, pod *corev1.Pod) bool {
	return needsChanged(m.Pod(), pod) || r.claimsChanged(m, pod)
}

// claimsChanged reports whether a Pod without a seat asks for other GPUs with resource claims than
// when it became a member: its claims exist by now, or are allocated.
func (r *Registry) claimsChanged(m *Member, pod *corev1.Pod) bool {
	if m.seat != nil {
		return false
	}
	claimed, known := r.claimedBy(pod)
	return known && m.claimed != claimed
}

// ClaimsUnsettled reports whether a member may ask for other GPUs with resource claims than when it became a member:
// that is being found out, or the member is about to be observed again. No place may be planned for it then.
func (r *Registry) ClaimsUnsettled(m *Member) bool {
	claimed, known := r.claimedBy(m.Pod())
	return !known || m.claimed != claimed
}

// claimedBy returns how many GPUs a Pod asks for with resource claims: 0 if it has a node, and its
// claims are allocated. Known is false while that is being found out.
func (r *Registry) claimedBy(pod *corev1.Pod) (claimed int, known bool) {
	if r.claimed == nil || len(pod.Spec.ResourceClaims) == 0 || pod.Spec.NodeName != "" || snapshot.WantsGPUs(pod) {
		return 0, true
	}
	return r.claimed(pod)
}

// admit adds a member to its group.
func (r *Registry) admit(m *Member) Actions {
	r.sharing.share(&m.Shape)
	r.podGroups.admit(m)
	m.group = r.groupOf(m)
	m.group.join(m)
	r.touch(m.group)
	r.members[m.UID] = m
	return r.activateLeader(m.group)
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

// activateLeader has the leader queued, if the gang is ready for that.
func (r *Registry) activateLeader(g *Group) Actions {
	if !r.started {
		return Actions{}
	}
	if r.elect(g); g.leader == nil || g.plan != nil || !g.complete() {
		return Actions{}
	}
	if g.retry.never {
		r.change(g) // the group is not the same as when it failed
	}
	if r.turnstile.holds(g) {
		g.retry.by = g.retry.at // likewise
		r.setRetry(g)
		return Actions{Due: true}
	}
	r.setRetry(g)
	return Actions{Activate: []*corev1.Pod{g.leader.Pod()}}
}

// podBound is called when a Pod has got its node.
func (r *Registry) podBound(m *Member) Actions {
	g, seat := m.group, m.seat
	g.bound++
	r.touch(g)
	actions := Actions{}
	switch {
	case seat == nil: // another scheduler has bound it
	case g.plan != nil && g.plan.number == seat.Plan: // so it has here, before the barrier opened
		actions = r.abort(g)
	default:
		r.setSeat(m, nil)
		if m.Pod().Spec.NodeName != seat.Node {
			actions.Release = []types.UID{m.UID}
		} else if g.bound > 1 {
			return actions // nothing has changed for the others
		}
	}
	return actions.and(r.activateLeader(g))
}

// Forget removes a Pod that is gone or has ended.
func (r *Registry) Forget(uid types.UID) Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.terminating, uid)
	m := r.members[uid]
	if m == nil {
		return Actions{}
	}
	return r.forget(m).and(r.dropGone(m.podGroup))
}

func (r *Registry) forget(m *Member) Actions {
	actions := r.vacate(m)
	if m.bound() && !slices.Contains(actions.Release, m.UID) {
		// A Pod may be bound and gone before the scheduler ever looks at its node again:
		// nothing else would release its seat.
		actions.Release = append(actions.Release, m.UID)
	}
	g := m.group
	g.drop(m)
	r.touch(g)
	delete(r.members, m.UID)
	r.sharing.release(&m.Shape)
	r.podGroups.drop(m)
	if len(g.members) == 0 {
		r.turnstile.leave(g)
		r.clearFailures(g)
		r.untrack(g)
		delete(r.groups, g.Key)
		return actions
	}
	if g.leader != nil && g.leader != m && len(actions.Release) == 0 {
		return actions // nothing has changed for the others
	}
	actions = actions.and(r.activateLeader(g))
	if g.leader == nil { // no member waits any more
		r.turnstile.leave(g)
		r.clearFailures(g)
	}
	return actions
}

// EachPlacing calls do with what each member without a node needs.
func (r *Registry) EachPlacing(do func(*placement.Shape) bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, m := range r.members {
		if !m.bound() && !do(&m.Shape) {
			return
		}
	}
}

// vacate takes the seat of a Pod that won't use it. If its gang's plan is incomplete, the
// plan is aborted.
func (r *Registry) vacate(m *Member) Actions {
	g := m.group
	switch {
	case m.seat == nil:
		return Actions{}
	case g.plan != nil && g.plan.number == m.seat.Plan:
		return r.abort(g)
	default:
		r.setSeat(m, nil)
		return Actions{Release: []types.UID{m.UID}}
	}
}

// abort takes back all seats of a plan whose barrier has not opened.
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
		r.setSeat(m, nil)
	}
	r.setPlan(g, nil)
	return actions
}

// setSeat gives a member a seat, or takes it away.
func (r *Registry) setSeat(m *Member, seat *Seat) {
	m.seat = seat
	r.touch(m.group)
}

// setPlan gives a group a plan, or ends it. While it has one, it is not retried.
func (r *Registry) setPlan(g *Group, current *plan) {
	g.plan = current
	if current == nil {
		delete(r.planned, g)
	} else {
		r.planned[g] = struct{}{}
	}
	r.touch(g)
	r.setRetry(g)
}

// clearFailures resets a group's failures.
func (r *Registry) clearFailures(g *Group) {
	g.retry.failedAt, g.retry.at, g.retry.queuedAt, g.retry.endedAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	g.refused, g.refusals, g.aborts, g.retry.hurried, g.retry.awaits = nil, 0, 0, false, AwaitsRoom
	r.change(g)
}

// change is called when what was found about a group need not hold any more.
func (r *Registry) change(g *Group) {
	r.retries.remove(g)
	r.retries.setNever(g, false)
	r.setRetry(g)
}
