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

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// Decision is what a scheduling cycle does with a Pod.
type Decision struct {
	// Node is where the Pod has its seat, and Plan the seat's plan. Empty if it has
	// none.
	Node string
	Plan uint64
	// Order has the nodes with room for a Pod that takes its seat when it has been
	// scored, the best according to the engine first, by their names.
	Order map[string]int
	// Waits is why it gets none for now. Wrong is why it never will as it is.
	Waits, Wrong string
}

// Decide decides on a Pod that Concerns, given the snapshot's nodes. Scored is true
// if the profile chooses the nodes of Pods that are alone.
func (p *Planner) Decide(pod *corev1.Pod, nodes []fwk.NodeInfo, scored bool) Decision {
	p.mirror.Refresh(nodes)
	if !p.isCurrent() {
		return p.waitUntilCurrent(pod)
	}
	if seat, seated := p.registry.SeatOf(pod.UID); seated {
		if p.mirror.Intact(pod.UID) {
			return Decision{Node: seat.Node, Plan: seat.Plan}
		}
		_, actions := p.registry.Withdraw(pod.UID, seat.Plan)
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
	gang, err := p.gangOf(attempt)
	if err != nil {
		p.registry.Fail(attempt.Group, begin, begin.Add(again))
		p.metrics.failed.WithLabelValues("Invalid").Inc()
		return Decision{Wrong: err.Error()}
	}
	if !p.watchLabels(attempt) {
		p.mirror.Refresh(nodes)
	}
	p.learn(attempt)
	if scored && attempt.Group.Alone {
		order, late := p.rank(attempt, gang)
		switch {
		case late != nil:
			return p.await(attempt, late, begin)
		case len(order) > 0:
			return Decision{Order: order}
		}
		return p.fail(attempt, gang, begin)
	}
	seated, late := p.plan(attempt, gang)
	p.metrics.plans.Observe(p.clock.Since(begin).Seconds())
	switch {
	case late != nil:
		return p.await(attempt, late, begin)
	case seated == nil:
		return p.fail(attempt, gang, begin)
	}
	return p.seat(attempt, seated)
}

// gangOf translates an attempt for the engine.
func (p *Planner) gangOf(attempt *gangs.Attempt) (*roles, error) {
	if attempt.Err != nil {
		return nil, attempt.Err
	}
	gang := rolesOf(attempt.Waiting, attempt.Need)
	gang.Except = append(p.claimedByOthers(attempt), attempt.Refused...)
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

// claimedByOthers returns the nodes that are kept from a gang, but for those on which
// places are reserved for it.
func (p *Planner) claimedByOthers(attempt *gangs.Attempt) []string {
	nodes := p.claims.except(attempt)
	if len(nodes) == 0 {
		return nil
	}
	requester := p.requesterOf(attempt)
	if requester.Pods == nil {
		return nodes
	}
	its := p.mirror.NodesFor(requester.Pods)
	return slices.DeleteFunc(nodes, func(node string) bool { return its[node] })
}

// watchLabels returns false if the nodes have to be looked at again, as a Pod asks
// for labels that nobody has asked for so far.
func (p *Planner) watchLabels(attempt *gangs.Attempt) bool {
	known := true
	for _, m := range attempt.Waiting {
		if !m.Learned {
			known = p.mirror.Watch(&m.Shape) && known
		}
	}
	return known
}

// learn counts the Pods as demand that have come since.
func (p *Planner) learn(attempt *gangs.Attempt) {
	for _, m := range attempt.Waiting {
		if !m.Learned {
			m.Learned = true
			p.mirror.Learn(m.Shape)
		}
	}
}

// plan returns places for a gang, or nil. It is late if the gang has to wait for
// places that are kept for it.
func (p *Planner) plan(attempt *gangs.Attempt, gang *roles) (seated *seating, late *lateness) {
	requester := p.requesterOf(attempt)
	if destinations := p.destinationsOf(attempt, requester); len(destinations) > 0 {
		return p.planAround(attempt, gang, requester, destinations)
	}
	p.mirror.For(requester, func(cluster *placement.Cluster) { seated = p.planIn(cluster, attempt, gang) })
	return seated, nil
}

// planIn returns places for a gang in the cluster as it is, or nil.
func (p *Planner) planIn(cluster *placement.Cluster, attempt *gangs.Attempt, gang *roles) (seated *seating) {
	gang.tryNear(func() bool {
		plan, fits, err := cluster.Plan(&gang.Gang)
		if err != nil {
			p.logger.Error(err, "A gang can't be planned", "gang", attempt.Group.Key)
		}
		if fits {
			seated = &seating{}
			seated.members, seated.places = gang.Assign(plan)
		}
		return fits
	})
	return seated
}

// rank returns the order of the nodes that have room for a Pod. One that is moved goes
// to the place that is kept for it; if that is not free yet, it is late.
func (p *Planner) rank(attempt *gangs.Attempt, gang *roles) (order map[string]int, late *lateness) {
	requester := p.requesterOf(attempt)
	there, late, _ := p.arrivals(attempt, p.destinationsOf(attempt, requester))
	switch {
	case late.pods > 0:
		return nil, late
	case len(there.places) > 0:
		return map[string]int{there.places[0].Node: 0}, nil
	}
	order = map[string]int{}
	p.mirror.For(requester, func(cluster *placement.Cluster) {
		for i, ranked := range cluster.Rank(cluster.Request(gang.Roles[0].Shape), cluster.Root()) {
			order[ranked.Node] = i
		}
	})
	for _, node := range gang.Except {
		delete(order, node)
	}
	return order, nil
}

// seat carries a plan out.
func (p *Planner) seat(attempt *gangs.Attempt, seated *seating) Decision {
	turn := attempt.Waiting[0].UID
	members, places := seated.members, seated.places
	number := p.take(attempt, members, places)
	if number == 0 {
		now := p.clock.Now()
		p.registry.Fail(attempt.Group, now, now.Add(shortestPause))
		return Decision{Waits: "its gang has just changed"}
	}
	for i, m := range members {
		if m.UID == turn {
			return Decision{Node: places[i].Node, Plan: number}
		}
	}
	return Decision{Waits: "other Pods of its gang go first"}
}

// take gives members their seats, and returns the plan's number; 0 if they can no
// longer take them.
func (p *Planner) take(attempt *gangs.Attempt, members []*gangs.Member, places []placement.Place) uint64 {
	for i, m := range members {
		p.mirror.Hold(m.Pod(), places[i]) //nolint:gosec // as many as members
	}
	number, actions := p.registry.Seat(attempt.Group, members, places, attempt.Waiting[0].UID)
	if number == 0 {
		p.mirror.Release(uidsOf(members))
		return 0
	}
	if p.claims.drop(attempt.Group.Key) {
		p.wake()
	}
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

// fail says why a gang has no place, and when it is tried again.
func (p *Planner) fail(attempt *gangs.Attempt, gang *roles, begin time.Time) Decision {
	given, renew := p.explain(attempt, gang)
	if !attempt.Extra {
		p.claimIfStarving(attempt, gang, begin)
	}
	p.metrics.failed.WithLabelValues(given.reason).Inc()
	end := p.clock.Now()
	retryAt := end.Add(pause(end.Sub(begin), p.registry.Failing()))
	if renew.IsZero() {
		p.registry.Fail(attempt.Group, begin, retryAt)
	} else {
		p.registry.FailUntil(attempt.Group, begin, retryAt, renew)
	}
	return Decision{Waits: given.text}
}

const (
	// shortestPause and longestPause bound how long a gang that found no place is
	// not tried again.
	shortestPause = 100 * time.Millisecond
	longestPause  = 20 * time.Second
	// share is the part of the time that attempts may take that find no place: one
	// in so many.
	share = 10
)

// pause returns how long to wait with another attempt if this one took so long and
// so many gangs are in that state.
func pause(took time.Duration, failing int) time.Duration {
	return min(max(share*took*time.Duration(max(failing, 1)), shortestPause), longestPause)
}

// Reserve seats a Pod on the node that its profile has chosen, and returns the
// number of its plan.
func (p *Planner) Reserve(pod *corev1.Pod, node string) (uint64, error) {
	attempt := p.registry.Attempt(pod.UID)
	if attempt == nil {
		return 0, errors.New("the Pod is no longer waiting")
	}
	place, fits := p.placeOn(attempt, node)
	if !fits {
		return 0, fmt.Errorf("node %s: its GPUs are no longer free", node)
	}
	number := p.take(attempt, attempt.Waiting[:1], []placement.Place{place})
	if number == 0 {
		return 0, errors.New("the Pod is no longer waiting")
	}
	return number, nil
}

// placeOn returns the place that a Pod gets on a node: that which is kept for it if it
// is moved there.
func (p *Planner) placeOn(attempt *gangs.Attempt, node string) (place placement.Place, fits bool) {
	requester := p.requesterOf(attempt)
	there, _, _ := p.arrivals(attempt, p.destinationsOf(attempt, requester))
	if len(there.places) > 0 && there.places[0].Node == node {
		return there.places[0], true
	}
	p.mirror.For(requester, func(cluster *placement.Cluster) {
		place, fits = cluster.On(node, cluster.Request(attempt.Waiting[0].Shape))
	})
	return place, fits
}
