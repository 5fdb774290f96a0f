// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// seating is who gets which place.
type seating struct {
	members []*gangs.Member
	places  []placement.Place
}

func (s *seating) add(m *gangs.Member, place placement.Place) {
	s.members, s.places = append(s.members, m), append(s.places, place)
}

// lateness is why Pods that are moved have to wait: the places that are kept for them
// are still in use.
type lateness struct {
	nodes []string
	pods  int
}

func (l *lateness) add(node string) {
	l.pods++
	if !slices.Contains(l.nodes, node) {
		l.nodes = append(l.nodes, node)
	}
}

// String says it to the Pods' owner.
func (l *lateness) String() string {
	slices.Sort(l.nodes)
	if l.pods == 1 {
		return fmt.Sprintf("it is being moved: its place on node %s is kept for it and not free yet", l.nodes[0])
	}
	where := "node " + l.nodes[0]
	if len(l.nodes) > 1 {
		where = "nodes " + strings.Join(l.nodes, ", ")
	}
	return fmt.Sprintf("%d Pods of its gang are being moved: their places on %s are kept for them and not free yet", l.pods, where)
}

// requesterOf tells the mirror for whom it is asked.
func (p *Planner) requesterOf(attempt *gangs.Attempt) *mirror.Requester {
	requester := &mirror.Requester{Priority: attempt.Priority}
	if !p.mirror.HasReservations() {
		return requester
	}
	requester.Pods = make(map[string]bool, len(attempt.Waiting))
	for _, m := range attempt.Waiting {
		requester.Pods[keyOf(m)] = true
	}
	return requester
}

func keyOf(m *gangs.Member) string {
	pod := m.Pod()
	return reservation.PodKey(pod.Namespace, pod.Name)
}

// destinationsOf returns where members of an attempt are moved to, by keyOf. Nodes
// that refused a member don't count.
func (p *Planner) destinationsOf(attempt *gangs.Attempt, requester *mirror.Requester) map[string]mirror.Destination {
	if requester.Pods == nil {
		return nil
	}
	destinations := p.mirror.Destinations(requester.Pods)
	for pod, one := range destinations {
		if slices.Contains(attempt.Refused, one.Node) {
			delete(destinations, pod)
		}
	}
	return destinations
}

// arrival is whether a Pod that is moved can take its place.
type arrival int

const (
	arrivesNow   arrival = iota
	arrivesLater         // somebody is still there
	arrivesNever         // the node, or a card, is no longer good
)

// arrive finds out whether a Pod can take the place that is kept for it.
func arrive(cluster *placement.Cluster, m *gangs.Member, to *mirror.Destination) (placement.Place, arrival) {
	request := cluster.Request(m.Shape)
	reason, err := cluster.Fit(to.Node, request)
	if err != nil || reason.Lasting() || to.Gone {
		return placement.Place{}, arrivesNever
	}
	place := placement.Place{Node: to.Node, Use: snapshot.Use(m.Pod(), to.Cards)}
	states := cluster.CardStates(to.Node)
	named := len(to.Cards) > 0
	if named && len(to.Cards) != max(m.Shape.GPUs, min(m.Shape.Share, 1)) {
		return placement.Place{}, arrivesNever // it is for a Pod that asked for something else
	}
	free := reason == placement.Fits
	for _, card := range to.Cards {
		if states[card].Broken {
			return placement.Place{}, arrivesNever
		}
		free = free && states[card].Free >= place.Percent
	}
	if !free {
		return placement.Place{}, arrivesLater
	}
	if !named {
		place, free = cluster.On(to.Node, request)
	}
	if !free {
		return placement.Place{}, arrivesLater
	}
	return place, arrivesNow
}

// arrivals sorts the members of an attempt: those that take the places that are kept
// for them, those whose places are not free yet, and the rest. What is kept for others
// does not matter here: it was planned beside these places, and may have to wait until
// these Pods are there.
func (p *Planner) arrivals(attempt *gangs.Attempt, destinations map[string]mirror.Destination) (there *seating, late *lateness, rest []*gangs.Member) {
	there, late = &seating{}, &lateness{}
	if len(destinations) == 0 {
		return there, late, attempt.Waiting
	}
	p.mirror.For(&mirror.Requester{All: true}, func(cluster *placement.Cluster) {
		cluster.Try(func() bool {
			for _, m := range attempt.Waiting {
				to, moved := destinations[keyOf(m)]
				if !moved {
					rest = append(rest, m)
					continue
				}
				switch place, when := arrive(cluster, m, &to); when {
				case arrivesNow:
					p.count(cluster, m, place) // two may go to one node
					there.add(m, place)
				case arrivesLater:
					late.add(to.Node)
				case arrivesNever:
					rest = append(rest, m)
				}
			}
			return false
		})
	})
	return there, late, rest
}

// count lets a place count for a while.
func (p *Planner) count(cluster *placement.Cluster, m *gangs.Member, place placement.Place) {
	if err := cluster.Place(placement.Pod{Name: "arriving/" + string(m.UID), Node: place.Node, Use: place.Use}); err != nil {
		p.logger.Error(err, "A place can't be counted", "pod", klog.KObj(m.Pod()), "node", place.Node)
	}
}

// planAround plans for a gang some of whose members are moved. They go to the places
// that are kept for them; the others are planned around them. If any of those places is
// not free yet, a gang that has to start waits; one that runs already takes those that
// are.
func (p *Planner) planAround(attempt *gangs.Attempt, gang *roles, requester *mirror.Requester, destinations map[string]mirror.Destination) (*seating, *lateness) {
	there, late, rest := p.arrivals(attempt, destinations)
	need := attempt.Need - len(there.members)
	if late.pods > 0 && len(attempt.Placed) == 0 && need > 0 {
		return nil, late
	}
	if len(rest) > 0 && !p.planRest(attempt, gang, requester, there, rest, max(0, need-late.pods)) {
		return nil, nil
	}
	if len(there.members) == 0 && late.pods > 0 {
		return nil, late
	}
	return there, nil
}

// planRest adds the places of the members that are not moved. It returns false if there
// are none for as many as need them.
func (p *Planner) planRest(attempt *gangs.Attempt, gang *roles, requester *mirror.Requester, there *seating, rest []*gangs.Member, need int) (fits bool) {
	others := rolesOf(rest, need)
	others.Level, others.Required, others.Except, others.near = gang.Level, gang.Required, gang.Except, gang.near
	p.mirror.For(requester, func(cluster *placement.Cluster) {
		if near := p.domainOf(there, gang.Level); near != "" {
			others.near = near
		}
		cluster.Try(func() bool {
			for i, m := range there.members {
				p.count(cluster, m, there.places[i])
			}
			seated := p.planIn(cluster, attempt, others)
			if fits = seated != nil; fits {
				there.members, there.places = append(there.members, seated.members...), append(there.places, seated.places...)
			}
			return false
		})
	})
	return fits
}

// domainOf is the domain to which a gang is moved.
func (p *Planner) domainOf(there *seating, level int) string {
	if level == 0 || len(there.places) == 0 {
		return ""
	}
	nodes := make([]string, len(there.places))
	for i := range there.places {
		nodes[i] = there.places[i].Node
	}
	return p.mirror.DomainOfNodes(nodes, level)
}

// await lets a gang wait until places that are kept for it are free, or are not kept
// any more: both wake it.
func (p *Planner) await(attempt *gangs.Attempt, late *lateness, begin time.Time) Decision {
	p.metrics.failed.WithLabelValues("Moving").Inc()
	p.registry.Fail(attempt.Group, begin, begin.Add(shortestPause))
	return Decision{Waits: late.String()}
}

// moving reports whether any of a gang waits for a place that is kept for it.
func (p *Planner) moving(attempt *gangs.Attempt) bool {
	destinations := p.destinationsOf(attempt, p.requesterOf(attempt))
	there, late, _ := p.arrivals(attempt, destinations)
	return len(there.members)+late.pods > 0
}

// Reserved returns what reservations keep of a node from a Pod that is not ours.
func (p *Planner) Reserved(pod *corev1.Pod, node string) mirror.Claim {
	return p.mirror.Reserved(node, pod)
}
