// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/preemption"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// Decision is what a scheduling cycle does with a Pod.
type Decision struct {
	// Node is where the Pod has its seat, and Plan the seat's plan. Empty if it has
	// none.
	Node string
	Plan uint64
	// Order ranks the nodes with room, by name, for a Pod that gets its seat only after
	// scoring: the engine's best node has rank 0.
	Order map[string]int
	// Waits is why the Pod gets no seat for now. Wrong is why it never will unless it
	// changes.
	Waits, Wrong string
}

// StartCycle decides on a Pod at the start of its scheduling cycle. A Pod that has a seat
// and had a cycle before has been stopped by an error: after a refusal it has no seat any
// more, and at the barrier no further cycle. It gives its seat back.
func (p *Planner) StartCycle(pod *corev1.Pod, nodes []fwk.NodeInfo, scored bool) Decision {
	if seat, seated := p.registry.SeatOf(pod.UID); seated && p.registry.Tried(pod.UID, seat.Plan) {
		p.Withdraw(pod.UID, seat.Plan)
		return Decision{Waits: "the last attempt to place it was ended by an error"}
	}
	decision := p.Decide(pod, nodes, scored)
	if decision.Plan != 0 {
		p.registry.MarkTried(pod.UID, decision.Plan)
	}
	return decision
}

// Decide decides on a Pod for which Concerns is true, given the snapshot's nodes.
// scored is true if the profile chooses the nodes of Pods in no gang.
func (p *Planner) Decide(pod *corev1.Pod, nodes []fwk.NodeInfo, scored bool) Decision {
	p.tidyCycles(p.clock.Now())
	p.refresh(nodes)
	if !p.isCurrent() {
		return p.waitUntilCurrent(pod)
	}
	if seat, seated := p.registry.SeatOf(pod.UID); seated {
		if p.mirror.Intact(pod.UID) {
			return Decision{Node: seat.Node, Plan: seat.Plan}
		}
		_, _, actions := p.registry.Withdraw(pod.UID, seat.Plan)
		p.do(actions)
	}
	attempt := p.registry.Attempt(pod.UID)
	if attempt == nil {
		return Decision{Waits: "waits for the other Pods of its gang"}
	}
	return p.try(attempt, nodes, scored)
}

func (p *Planner) try(attempt *gangs.Attempt, nodes []fwk.NodeInfo, scored bool) Decision {
	begin := p.clock.Now()
	p.memory.Settle(begin.Add(-cacheLag))
	p.searches.begin()
	if attempt.Err == nil && !p.watchLabels(attempt) {
		p.refresh(nodes)
	}
	gang, err := p.gangOf(attempt)
	if err != nil {
		p.registry.Fail(attempt.Group, begin, begin.Add(fallbackRetry))
		p.metrics.failed.WithLabelValues("Invalid").Inc()
		p.decided(attempt, nil, begin, journal.Invalid, err.Error(), nil)
		return Decision{Wrong: err.Error()}
	}
	if waits := p.unpreparedClaims(attempt); waits != "" {
		return p.waitForClaims(attempt, waits)
	}
	if p.learn(attempt) {
		p.noteSubmission(attempt)
	}
	p.lookAhead()
	if admitted := p.admit(attempt, gang); admitted.waits != "" {
		return p.waitInQueue(attempt, admitted.waits)
	}
	freed := p.mirror.Freed()
	gang.keys = p.keysOf(attempt, gang)
	if refused, failed := p.knownFailure(freed, gang.keys); failed {
		gang.refused = refused
		return p.fail(attempt, gang, begin)
	}
	gang.asked = p.newAsked()
	if scored && attempt.Group.Alone {
		return p.tryScored(attempt, gang, begin)
	}
	return p.tryPlan(attempt, gang, freed, begin)
}

// tryScored looks for nodes for a Pod that is alone, of which the profile's scores choose one.
func (p *Planner) tryScored(attempt *gangs.Attempt, gang *roles, begin time.Time) Decision {
	order, blocked := p.rank(attempt, gang)
	switch {
	case blocked != nil:
		return p.waitForMoves(attempt, blocked, begin)
	case len(order) > 0:
		p.ranked(attempt, gang, begin, order)
		return Decision{Order: order}
	}
	return p.fail(attempt, gang, begin)
}

// tryPlan looks for places for all Pods of an attempt. What it did not find is remembered until more is freed than at the beginning.
func (p *Planner) tryPlan(attempt *gangs.Attempt, gang *roles, freed uint64, begin time.Time) Decision {
	gang.check = p.checkerUnlessTrusted(gang)
	seated, blocked := p.plan(attempt, gang)
	p.metrics.plans.Observe(p.clock.Since(begin).Seconds())
	gang.refused = gang.check.outcome()
	p.searches.ended(attempt.Group.Key, gang.Count(), seated != nil || !gang.refused.ranOutOfTime())
	switch {
	case blocked != nil:
		return p.waitForMoves(attempt, blocked, begin)
	case seated != nil:
		return p.seat(attempt, gang, seated, begin)
	}
	if gang.refused.lasting() {
		p.failed.put(freed, gang.key(), gang.refused)
	}
	return p.fail(attempt, gang, begin)
}

// gangOf translates an attempt into the engine's terms.
func (p *Planner) gangOf(attempt *gangs.Attempt) (*roles, error) {
	gang, err := p.gangLater(attempt)
	if err != nil {
		return nil, err
	}
	gang.claimed = p.claimedByOthers(attempt)
	gang.Except = slices.Concat(gang.claimed, gang.Except)
	return gang, nil
}

// gangLater is gangOf for a time at which no node is claimed any more.
func (p *Planner) gangLater(attempt *gangs.Attempt) (*roles, error) {
	if attempt.Err != nil {
		return nil, attempt.Err
	}
	gang := p.rolesOf(attempt.Waiting, attempt.Need)
	gang.Except = slices.Clone(attempt.Refused)
	if attempt.Labels.Level == "" {
		return gang, nil
	}
	level, err := p.levels.Number(attempt.Labels.Level)
	if err != nil {
		return nil, err
	}
	gang.Level, gang.Required = level, attempt.Labels.Required
	gang.near = p.mirror.DomainOf(attempt.Placed, level)
	return gang, nil
}

// claimedByOthers returns the nodes that are kept from a gang, except those on which
// places are reserved for it.
func (p *Planner) claimedByOthers(attempt *gangs.Attempt) []string {
	if !p.claims.any() {
		return nil
	}
	nodes := p.claims.blockedNodes(attempt, p.precedenceOf(attempt))
	if len(nodes) == 0 {
		return nil
	}
	requester := p.requesterOf(attempt)
	if requester.Pods == nil {
		return nodes
	}
	reserved := p.mirror.NodesFor(requester.Pods)
	return slices.DeleteFunc(nodes, func(node string) bool { return reserved[node] })
}

// precedenceOf returns whether a gang comes before one that claims nodes. With GPUQueues, priorities decide in a queue only:
// otherwise the Pods of a higher priority that had to give back GPUs would take them again at once. Of another queue, a gang comes
// before it if it gets what its queue is guaranteed and the other one does not, or if it has the priority of critical system Pods.
func (p *Planner) precedenceOf(attempt *gangs.Attempt) func(*claim) bool {
	rank := rankOf(attempt)
	state := p.queueState()
	if state == nil {
		return func(one *claim) bool { return rank.Compare(one.rank) <= 0 }
	}
	queue := state.QueueOf(attempt.Waiting[0].Pod()).Queue
	critical, guaranteed := attempt.Priority >= preemption.SystemCritical, p.line.isGuaranteed(attempt.Group.Key)
	return func(one *claim) bool {
		if one.queue == queue || critical {
			return rank.Compare(one.rank) <= 0
		}
		return guaranteed && !p.line.isGuaranteed(one.rank.Group)
	}
}

// watchLabels returns false if the nodes have to be refreshed, because a Pod selects by
// labels that were not tracked so far.
func (p *Planner) watchLabels(attempt *gangs.Attempt) bool {
	known := true
	for i, m := range attempt.Waiting {
		if i == 0 || !sameQuestions(&m.Shape, &attempt.Waiting[i-1].Shape) {
			known = p.mirror.Watch(&m.Shape) && known
		}
	}
	return known
}

// sameQuestions reports whether two shapes are known to refer to the same labels and resources.
func sameQuestions(a, b *placement.Shape) bool {
	return a.Selector == b.Selector && a.Preference == b.Preference && slices.Equal(a.Others, b.Others)
}

// learn counts Pods as demand that have not been counted yet, and reports whether there are any.
func (p *Planner) learn(attempt *gangs.Attempt) (news bool) {
	for _, m := range attempt.Waiting {
		if !m.Learned {
			m.Learned, news = true, true
			p.mirror.Learn(p.shapeOf(&m.Shape), p.expectedToEnd(m.Pod()))
		}
	}
	return news
}

// plan returns places for a gang, or nil. blocked is set if the gang has to wait for
// places that are kept for it.
func (p *Planner) plan(attempt *gangs.Attempt, gang *roles) (seated *seating, blocked *blockedMoves) {
	requester := p.requesterOf(attempt)
	if destinations := p.destinationsOf(attempt, requester); len(destinations) > 0 {
		return p.planAround(attempt, gang, requester, destinations)
	}
	p.mirror.For(requester, func(cluster *placement.Cluster) { seated = p.planIn(cluster, attempt, gang) })
	return seated, nil
}

// planIn returns places for a gang in the cluster as it is, or nil: those that its members are
// nominated for, if they are good.
func (p *Planner) planIn(cluster *placement.Cluster, attempt *gangs.Attempt, gang *roles) (seated *seating) {
	if nominated := p.onNominated(attempt, gang); nominated != nil {
		if seated = p.planAnywhere(cluster, attempt, nominated); seated != nil {
			return seated
		}
	}
	return p.planAnywhere(cluster, attempt, gang)
}

// planAnywhere returns places for a gang, if possible on nodes without faults that do not refuse Pods
// and that none of its members avoids.
func (p *Planner) planAnywhere(cluster *placement.Cluster, attempt *gangs.Attempt, gang *roles) (seated *seating) {
	for _, last := range p.lastChoices(attempt) {
		if seated = p.planOn(cluster, attempt, gang.without(last)); seated != nil {
			return seated
		}
	}
	return p.planOn(cluster, attempt, gang)
}

// lastChoices returns which nodes to leave out at first, fewer and fewer: those with faults and
// those that the gang's members avoid, then only the former.
func (p *Planner) lastChoices(attempt *gangs.Attempt) [][]string {
	faulty, avoided := p.faultyNodes(attempt), avoidedNodes(attempt)
	var choices [][]string
	if len(avoided) > 0 {
		choices = append(choices, union(faulty, avoided))
	}
	if len(faulty) > 0 {
		choices = append(choices, faulty)
	}
	return choices
}

// faultyNodes returns the nodes on which Pods could not be bound or started lately.
func (p *Planner) faultyNodes(attempt *gangs.Attempt) []string {
	return union(p.faults.nodes(p.clock.Now()), p.refusingNodes(attempt))
}

// avoidedNodes returns the nodes that members of a gang use only if they find room on no others.
func avoidedNodes(attempt *gangs.Attempt) (nodes []string) {
	for _, m := range attempt.Waiting {
		nodes = append(nodes, snapshot.AvoidedNodes(m.Pod())...)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// planOn returns places for a gang near its other members or, if that is not possible and not
// required, anywhere.
func (p *Planner) planOn(cluster *placement.Cluster, attempt *gangs.Attempt, gang *roles) (seated *seating) {
	gang.tryNear(func() bool {
		plan, fits, err := gang.plan(cluster)
		if err != nil {
			p.logger.Error(err, "A gang can't be planned", "gang", attempt.Group.Key)
		}
		if fits {
			seated = &seating{}
			seated.members, seated.places = gang.Assign(plan)
			preferNominated(plan, seated.members, seated.places)
		}
		return fits
	})
	return seated
}

// rank returns the order of the nodes that have room for a Pod. A Pod that is being moved
// goes to the place that is kept for it; blocked is set if that is not free yet.
func (p *Planner) rank(attempt *gangs.Attempt, gang *roles) (order map[string]int, blocked *blockedMoves) {
	requester := p.requesterOf(attempt)
	ready, blocked, _ := p.sortArrivals(attempt, p.destinationsOf(attempt, requester))
	switch {
	case blocked.pods > 0:
		return nil, blocked
	case len(ready.places) > 0:
		return map[string]int{ready.places[0].Node: 0}, nil
	}
	order = map[string]int{}
	p.mirror.For(requester, func(cluster *placement.Cluster) {
		list := cluster.Rank(cluster.Request(gang.Roles[0].Shape), cluster.Root())
		for i, ranked := range list {
			order[ranked.Node] = i
		}
		if gang.asked != nil {
			gang.asked.rank(cluster, gang, list)
		}
	})
	last := len(order)
	for _, node := range union(p.faultyNodes(attempt), avoidedNodes(attempt)) {
		if rank, fits := order[node]; fits {
			order[node] = last + rank
		}
	}
	for _, node := range gang.Except {
		delete(order, node)
	}
	return order, nil
}

// seat carries out a plan.
func (p *Planner) seat(attempt *gangs.Attempt, gang *roles, seated *seating, begin time.Time) Decision {
	turn := attempt.Waiting[0].UID
	members, places := seated.members, seated.places
	number := p.assignSeats(attempt, members, places)
	if number == 0 {
		now := p.clock.Now()
		p.registry.Fail(attempt.Group, now, now.Add(shortestPause))
		return Decision{Waits: "its gang has just changed"}
	}
	p.seated(attempt, gang, begin, members, places)
	for i, m := range members {
		switch {
		case m.UID != turn:
		case i > 0 && gang.refused.ordered():
			p.activate([]*corev1.Pod{m.Pod()}) // after those that it depends on
		default:
			return Decision{Node: places[i].Node, Plan: number}
		}
	}
	return Decision{Waits: "other Pods of its gang are placed first"}
}

// assignSeats gives members their seats, and returns the plan's number; 0 if they can no
// longer take them.
func (p *Planner) assignSeats(attempt *gangs.Attempt, members []*gangs.Member, places []placement.Place) uint64 {
	for i, m := range members {
		p.mirror.Hold(m.Pod(), places[i]) //nolint:gosec // as many as members
	}
	number, actions := p.registry.Seat(attempt.Group, members, places, attempt.Waiting[0].UID, p.clock.Now())
	if number == 0 {
		p.mirror.Release(uidsOf(members))
		return 0
	}
	p.endPlaces(attempt.Group.Key)
	p.rejections.set(attempt.Group.Key, nil, nil)
	p.metrics.started(attempt)
	p.do(actions)
	return number
}

func uidsOf(members []*gangs.Member) []types.UID {
	uids := make([]types.UID, len(members))
	for i, m := range members {
		uids[i] = m.UID
	}
	return uids
}

// fail explains why a gang has no place, and schedules the next attempt.
func (p *Planner) fail(attempt *gangs.Attempt, gang *roles, begin time.Time) Decision {
	questions := gang.asked
	gang.asked = nil // what follows is for the explanation
	p.lastRefusals = lastRefusals{attempt.Group.Key, gang.refused}
	p.rejections.set(attempt.Group.Key, attempt.Waiting[0].Pod(), gang.refused.plugins())
	given, renew := p.explain(attempt, gang)
	if again := p.notSeen(gang.refused.plugins(), begin); !again.IsZero() && (renew.IsZero() || again.Before(renew)) {
		renew = again
	}
	if !attempt.Extra && gang.refused.atAll() == nil && p.queueState() == nil {
		p.claimIfStarving(attempt, gang, begin)
	}
	p.metrics.failed.WithLabelValues(given.reason).Inc()
	p.registry.FailAttempt(attempt.Group, gangs.Failure{Began: begin, Ended: p.clock.Now(), RetryBy: renew, Never: given.never})
	p.reportMembers(attempt.Group, given.text)
	gang.asked = questions
	p.decided(attempt, gang, begin, journal.Waits, given.text, nil)
	return Decision{Waits: given.text}
}

const (
	// shortestPause bounds the pause after an attempt that found no place, and longestPause
	// what an attempt counts for it.
	shortestPause = 100 * time.Millisecond
	longestPause  = 20 * time.Second
	// pauseFactor is how many times longer the pause is than an attempt that found no
	// place, so that such attempts take about a tenth of the time.
	pauseFactor = 10
)

// Reserve seats a Pod on the node that its profile has chosen, and returns the
// number of its plan.
func (p *Planner) Reserve(pod *corev1.Pod, node string) (uint64, error) {
	attempt := p.registry.Attempt(pod.UID)
	if attempt == nil {
		return 0, errors.New("the Pod is no longer waiting")
	}
	begin, chosen := p.clock.Now(), &roles{asked: p.newAsked()}
	place, fits := p.placeOn(attempt, node, chosen.asked)
	if !fits {
		return 0, fmt.Errorf("node %s: its GPUs are no longer free", node)
	}
	number := p.assignSeats(attempt, attempt.Waiting[:1], []placement.Place{place})
	if number == 0 {
		return 0, errors.New("the Pod is no longer waiting")
	}
	p.seated(attempt, chosen, begin, attempt.Waiting[:1], []placement.Place{place})
	return number, nil
}

// placeOn returns the place that a Pod gets on a node: the one that is kept for it if it
// is being moved there.
func (p *Planner) placeOn(attempt *gangs.Attempt, node string, questions *asked) (place placement.Place, fits bool) {
	requester := p.requesterOf(attempt)
	ready, _, _ := p.sortArrivals(attempt, p.destinationsOf(attempt, requester))
	if len(ready.places) > 0 && ready.places[0].Node == node {
		return ready.places[0], true
	}
	p.mirror.For(requester, func(cluster *placement.Cluster) {
		shape := p.shapeOf(&attempt.Waiting[0].Shape)
		place, fits = cluster.On(node, cluster.Request(shape))
		if questions != nil {
			questions.on(cluster, shape, node, &place, fits)
		}
	})
	return place, fits
}
