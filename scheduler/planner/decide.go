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

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/preemption"
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

// cycleKey is where a scheduling cycle keeps its Decision.
const cycleKey fwk.StateKey = "falldio.com/decision"

// Cycle passes the Decision of plugin GPUGang to the other plugins in a scheduling cycle.
type Cycle struct {
	Decision
}

var _ fwk.StateData = (*Cycle)(nil)

// Clone implements fwk.StateData. A Cycle does not change.
func (c *Cycle) Clone() fwk.StateData { return c }

// Write stores the Cycle for the other plugins.
func (c *Cycle) Write(state fwk.CycleState) { state.Write(cycleKey, c) }

// CycleOf returns the Cycle that GPUGang stored; nil for Pods that it does not handle.
func CycleOf(state fwk.CycleState) *Cycle {
	data, err := state.Read(cycleKey)
	if err != nil {
		return nil
	}
	cycle, _ := data.(*Cycle)
	return cycle
}

// StartCycle decides on a Pod at the start of its scheduling cycle. A Pod that has a seat
// and had a cycle before has been stopped by an error: after a refusal it has no seat any
// more, and at the barrier no further cycle. It gives its seat back.
func (p *Planner) StartCycle(pod *corev1.Pod, nodes []fwk.NodeInfo, scored bool) Decision {
	if seat, hasSeat := p.registry.SeatOf(pod.UID); hasSeat && p.registry.Tried(pod.UID, seat.Plan) {
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
	if !p.term.IsCurrent() {
		return p.waitUntilCurrent(pod)
	}
	if seat, hasSeat := p.registry.SeatOf(pod.UID); hasSeat {
		if p.mirror.Intact(pod.UID) {
			return Decision{Node: seat.Node, Plan: seat.Plan}
		}
		p.do(p.registry.Withdraw(pod.UID, seat.Plan).Actions)
	}
	attempt := p.registry.Attempt(pod.UID)
	if attempt == nil {
		return Decision{Waits: "waits for the other Pods of its gang"}
	}
	return p.try(attempt, nodes, scored)
}

// waitUntilCurrent requeues a Pod after a moment.
func (p *Planner) waitUntilCurrent(pod *corev1.Pod) Decision {
	if member := p.registry.Member(pod.UID); member != nil {
		now := p.clock.Now()
		soon := now.Add(shortestPause)
		p.registry.FailUntil(member.Group(), now, soon, soon)
	}
	return Decision{Waits: "the scheduler has just started and does not know yet what is running"}
}

func (p *Planner) try(attempt *gangs.Attempt, nodes []fwk.NodeInfo, scored bool) Decision {
	begin := p.clock.Now()
	p.filters.Begin(begin)
	if attempt.Err == nil && !p.finder.watchLabels(attempt) {
		p.refresh(nodes)
	}
	request, err := p.requestOf(attempt)
	if err != nil {
		p.registry.Fail(attempt.Group, begin, begin.Add(fallbackRetry))
		p.decisions.record(&search{attempt: attempt, begin: begin}, journal.Invalid, err.Error(), nil)
		return Decision{Wrong: p.say(attempt.Group, v1.WaitsForChange, err.Error())}
	}
	if waits := p.devices.Unprepared(attempt); waits != "" {
		return p.waitForClaims(attempt, waits)
	}
	if p.learn(attempt) {
		p.line.Submitted(attempt)
	}
	p.line.LookAhead()
	request, admitted := p.line.Admit(attempt, request)
	if admitted.Waits != "" {
		return p.waitInQueue(attempt, admitted.Waits)
	}
	freed := p.mirror.Freed()
	s := &search{attempt: attempt, begin: begin, request: request, keys: p.keysOf(attempt, request)}
	if refused, failed := p.filters.KnownFailure(freed, s.keys); failed {
		s.refused = refused
		return p.fail(s)
	}
	s.questions = p.decisions.recorder.NewQuestions()
	if scored && attempt.Group.Alone {
		return p.tryScored(s)
	}
	return p.tryPlan(s, freed)
}

// tryScored looks for nodes for a Pod that is alone, of which the profile's scores choose one.
func (p *Planner) tryScored(s *search) Decision {
	order, blocked := p.finder.rank(s)
	switch {
	case blocked != nil:
		return p.waitForMoves(s, blocked)
	case len(order) > 0:
		p.decisions.ranked(s, order)
		return Decision{Order: order}
	}
	return p.fail(s)
}

// tryPlan looks for places for all Pods of an attempt. What it did not find is remembered until more is freed than at the beginning.
func (p *Planner) tryPlan(s *search, freed uint64) Decision {
	s.check = p.filters.CheckerUnlessTrusted(s.request)
	found, blocked := p.finder.plan(s)
	p.metrics.plans.Observe(p.clock.Since(s.begin).Seconds())
	s.refused = s.check.Outcome()
	p.filters.SearchEnded(s.request, found != nil, s.refused)
	switch {
	case blocked != nil:
		return p.waitForMoves(s, blocked)
	case found != nil:
		return p.seat(s, found)
	}
	p.filters.Failed(freed, s.keys, s.refused)
	return p.fail(s)
}

// requestOf translates an attempt into the engine's terms.
func (p *Planner) requestOf(attempt *gangs.Attempt) (*gangs.Request, error) {
	request, err := p.finder.requestLater(attempt)
	if err != nil {
		return nil, err
	}
	request.Kept = p.claimedByOthers(attempt)
	request.Except = slices.Concat(request.Kept, request.Except)
	return request, nil
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
	requester := p.finder.requesterOf(attempt)
	if requester.Pods == nil {
		return nodes
	}
	reserved := p.mirror.NodesFor(requester.Pods)
	return slices.DeleteFunc(nodes, func(node string) bool { return reserved[node] })
}

// precedenceOf returns whether a gang comes before one that claims nodes. Priorities decide in a queue only:
// otherwise the Pods of a higher priority that had to give back GPUs would take them again at once. Of another queue, a gang comes
// before it if it gets what its queue is guaranteed and the other one does not, or if it has the priority of critical system Pods.
func (p *Planner) precedenceOf(attempt *gangs.Attempt) func(*claim) bool {
	rank, queue := rankOf(attempt), p.line.State().QueueOf(attempt.Waiting[0].Pod()).Queue
	critical, guaranteed := attempt.Priority >= preemption.SystemCritical, p.line.IsGuaranteed(attempt.Group.Key)
	return func(one *claim) bool {
		if one.queue == queue || critical {
			return rank.Compare(one.rank) <= 0
		}
		return guaranteed && !p.line.IsGuaranteed(one.rank.Group)
	}
}

// learn counts Pods as demand that have not been counted yet, and reports whether there are any.
func (p *Planner) learn(attempt *gangs.Attempt) (news bool) {
	for _, m := range attempt.Waiting {
		if !m.Learned {
			m.Learned, news = true, true
			p.mirror.Learn(p.finder.shapeOf(&m.Shape), p.line.ExpectedToEnd(m.Pod()))
		}
	}
	return news
}

// seat carries out a plan.
func (p *Planner) seat(s *search, found *seating) Decision {
	turn := s.attempt.Waiting[0].UID
	number := p.assignSeats(s.attempt, found)
	if number == 0 {
		now := p.clock.Now()
		p.registry.Fail(s.attempt.Group, now, now.Add(shortestPause))
		return Decision{Waits: "its gang has just changed"}
	}
	p.decisions.placed(s, found)
	for i, m := range found.members {
		switch {
		case m.UID != turn:
		case i > 0 && s.refused.Ordered():
			p.activate([]*corev1.Pod{m.Pod()}) // after those that it depends on
		default:
			return Decision{Node: found.places[i].Node, Plan: number}
		}
	}
	return Decision{Waits: "other Pods of its gang are placed first"}
}

// assignSeats gives members their seats, and returns the plan's number; 0 if they can no
// longer take them.
func (p *Planner) assignSeats(attempt *gangs.Attempt, found *seating) uint64 {
	for i, m := range found.members {
		p.mirror.Hold(m.Pod(), found.places[i])
	}
	number, actions := p.registry.Seat(attempt.Group, found.members, found.places, attempt.Waiting[0].UID, p.clock.Now())
	if number == 0 {
		p.mirror.Release(uidsOf(found.members))
		return 0
	}
	p.endPlaces(attempt.Group.Key)
	p.filters.Placed(attempt.Group.Key)
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

// endPlaces ends what is kept for a gang that has got its place, or no longer waits.
func (p *Planner) endPlaces(group string) {
	claimed, reserved := p.claims.drop(group), p.line.Drop(group)
	if claimed || reserved {
		p.wake()
		p.admitTurnedAway()
	}
}

// waitForMoves lets a gang wait until places that are kept for it are free, or no longer
// kept: both wake it.
func (p *Planner) waitForMoves(s *search, blocked *blockedMoves) Decision {
	p.registry.Fail(s.attempt.Group, s.begin, s.begin.Add(shortestPause))
	waits := p.say(s.attempt.Group, v1.WaitsForMoves, blocked.String())
	p.decisions.record(&search{attempt: s.attempt, begin: s.begin}, journal.Moving, waits, nil)
	return Decision{Waits: waits}
}

// fail explains why a gang has no place, and schedules the next attempt.
func (p *Planner) fail(s *search) Decision {
	attempt := s.attempt
	p.filters.FoundNone(attempt.Group.Key, attempt.Waiting[0].Pod(), s.refused)
	given, renew := p.explain(s)
	if again := p.filters.NotSeen(s.refused.Plugins(), s.begin); !again.IsZero() && (renew.IsZero() || again.Before(renew)) {
		renew = again
	}
	p.registry.FailAttempt(attempt.Group, gangs.Failure{Began: s.begin, Ended: p.clock.Now(), RetryBy: renew, Never: given.never})
	text := p.sayReason(attempt.Group, given.reason)
	p.decisions.record(s, journal.Waits, text, nil)
	return Decision{Waits: text}
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
	s := &search{attempt: attempt, begin: p.clock.Now(), questions: p.decisions.recorder.NewQuestions()}
	place, fits := p.finder.placeOn(attempt, node, s.questions)
	if !fits {
		return 0, fmt.Errorf("node %s: its GPUs are no longer free", node)
	}
	chosen := &seating{members: attempt.Waiting[:1], places: []placement.Place{place}}
	number := p.assignSeats(attempt, chosen)
	if number == 0 {
		return 0, errors.New("the Pod is no longer waiting")
	}
	p.decisions.placed(s, chosen)
	return number, nil
}
