// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

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

func (p *Planner) try(attempt *gangs.Attempt, nodes []fwk.NodeInfo, scored bool) Decision {
	begin := p.clock.Now()
	p.filters.Begin(begin)
	if attempt.Err == nil && !p.finder.watchLabels(attempt) {
		p.refresh(nodes)
	}
	request, err := p.requestOf(attempt)
	if err != nil {
		return p.waitForChange(attempt, begin, err)
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
		return p.waitInQueue(attempt, admitted)
	}
	freed := p.mirror.Freed()
	s := &search{attempt: attempt, begin: begin, request: request, keys: p.keysOf(attempt, request)}
	if refused, failed := p.filters.KnownFailure(freed, s.keys); failed {
		s.refused = refused
		return p.fail(s)
	}
	if scored && attempt.Group.Alone {
		return p.tryScored(s)
	}
	return p.tryPlan(s, freed)
}

// requestOf translates an attempt into the engine's terms.
func (p *Planner) requestOf(attempt *gangs.Attempt) (*gangs.Request, error) {
	request, err := p.finder.requestLater(attempt)
	if err != nil {
		return nil, err
	}
	request.Kept = p.keptForOthers(attempt)
	request.Except = slices.Concat(request.Kept, request.Except)
	return request, nil
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
