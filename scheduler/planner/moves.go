// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// seating assigns places to members.
type seating struct {
	members []*gangs.Member
	places  []placement.Place
}

func (s *seating) add(m *gangs.Member, place placement.Place) {
	s.members, s.places = append(s.members, m), append(s.places, place)
}

// blockedMoves are Pods being moved that have to wait: the places that are kept for them
// are still in use.
type blockedMoves struct {
	nodes []string
	pods  int
}

func (b *blockedMoves) add(node string) {
	b.pods++
	if !slices.Contains(b.nodes, node) {
		b.nodes = append(b.nodes, node)
	}
}

// String describes them to the Pods' owner.
func (b *blockedMoves) String() string {
	slices.Sort(b.nodes)
	if b.pods == 1 {
		return fmt.Sprintf("it is being moved: its place on node %s is kept for it and not free yet", b.nodes[0])
	}
	where := "node " + b.nodes[0]
	if len(b.nodes) > 1 {
		where = "nodes " + strings.Join(b.nodes, ", ")
	}
	return fmt.Sprintf("%d Pods of its gang are being moved: their places on %s are kept for them and not free yet", b.pods, where)
}

func keyOf(m *gangs.Member) string {
	pod := m.Pod()
	return reservation.PodKey(pod.Namespace, pod.Name)
}

// destinationsOf returns where members of an attempt are moved to, by keyOf. Nodes
// that refused a member don't count.
func (f *finder) destinationsOf(attempt *gangs.Attempt, requester *mirror.Requester) map[string]mirror.Destination {
	if requester.Pods == nil {
		return nil
	}
	destinations := f.mirror.Destinations(requester.Pods)
	for pod, one := range destinations {
		if slices.Contains(attempt.Refused, one.Node) {
			delete(destinations, pod)
		}
	}
	return destinations
}

// arrival is whether a Pod that is being moved can take its place.
type arrival int

const (
	arrivesNow   arrival = iota
	arrivesLater         // the place is still in use, or the kubelet does not offer its cards yet
	arrivesNever         // the node, or a card, is no longer good
)

// checkArrival returns the place that is kept for a Pod if the Pod can take it now.
func (f *finder) checkArrival(cluster *placement.Cluster, m *gangs.Member, to *mirror.Destination) (placement.Place, arrival) {
	request := cluster.Request(f.shapeOf(&m.Shape))
	reason, err := cluster.Fit(to.Node, request)
	if to.Paused && reason == placement.ResourceTooSmall { // slices that are not offered are as if there were none
		return placement.Place{}, arrivesLater
	}
	if err != nil || reason.Lasting() || to.Gone {
		return placement.Place{}, arrivesNever
	}
	if to.Paused {
		return placement.Place{}, arrivesLater // until its time is over
	}
	place := placement.Place{Node: to.Node, Use: snapshot.Use(m.Pod(), to.Cards)}
	states := cluster.CardStates(to.Node)
	named := len(to.Cards) > 0
	if named && len(to.Cards) != max(m.Shape.GPUs, min(m.Shape.Share, 1)) {
		return placement.Place{}, arrivesNever // it is for a Pod with other needs
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

// sortArrivals sorts the members of an attempt: those that take the places that are kept
// for them, those whose places are not free yet, and the rest. Reservations for others
// don't matter here: they were planned alongside these places, and may have to wait until
// these Pods are there.
func (f *finder) sortArrivals(attempt *gangs.Attempt, destinations map[string]mirror.Destination) (ready *seating, blocked *blockedMoves, rest []*gangs.Member) {
	ready, blocked = &seating{}, &blockedMoves{}
	if len(destinations) == 0 {
		return ready, blocked, attempt.Waiting
	}
	f.mirror.For(&mirror.Requester{All: true}, func(cluster *placement.Cluster) {
		cluster.Try(func() bool {
			for _, m := range attempt.Waiting {
				to, moved := destinations[keyOf(m)]
				if !moved {
					rest = append(rest, m)
					continue
				}
				switch place, when := f.checkArrival(cluster, m, &to); when {
				case arrivesNow:
					f.occupy(cluster, m, place) // two Pods may go to one node
					ready.add(m, place)
				case arrivesLater:
					blocked.add(to.Node)
				case arrivesNever:
					rest = append(rest, m)
				}
			}
			return false
		})
	})
	return ready, blocked, rest
}

// occupy counts a place as taken until the cluster's changes are undone.
func (f *finder) occupy(cluster *placement.Cluster, m *gangs.Member, place placement.Place) {
	if err := cluster.Place(placement.Pod{Name: "arriving/" + string(m.UID), Node: place.Node, Use: place.Use}); err != nil {
		f.logger.Error(err, "A place can't be counted", "pod", klog.KObj(m.Pod()), "node", place.Node)
	}
}

// planAround plans a gang some of whose members are being moved. They go to the places
// that are kept for them; the others are planned around them. If any of those places is
// not free yet, a gang that has to start waits; one that already runs takes those that
// are free.
func (f *finder) planAround(s *search, requester *mirror.Requester, destinations map[string]mirror.Destination) (*seating, *blockedMoves) {
	ready, blocked, rest := f.sortArrivals(s.attempt, destinations)
	need := s.attempt.Need - len(ready.members)
	if blocked.pods > 0 && len(s.attempt.Placed) == 0 && need > 0 {
		return nil, blocked
	}
	if len(rest) > 0 && !f.planRest(s, requester, ready, rest, max(0, need-blocked.pods)) {
		return nil, nil
	}
	if len(ready.members) == 0 && blocked.pods > 0 {
		return nil, blocked
	}
	return ready, nil
}

// planRest adds places for the members that are not being moved. It reports whether
// enough of them fit.
func (f *finder) planRest(s *search, requester *mirror.Requester, ready *seating, rest []*gangs.Member, need int) (fits bool) {
	others := f.requestFor(rest, need)
	others.Level, others.Required, others.Except = s.request.Level, s.request.Required, s.request.Except
	around := &search{attempt: s.attempt, request: others, check: f.filters.CheckerUnlessTrusted(others), questions: s.questions}
	f.mirror.For(requester, func(cluster *placement.Cluster) {
		others.Near = cmp.Or(ready.domainIn(f.mirror, others.Level), s.request.Near)
		cluster.Try(func() bool {
			for i, m := range ready.members {
				f.occupy(cluster, m, ready.places[i])
			}
			found := f.planIn(cluster, around, others)
			if fits = found != nil; fits {
				ready.members, ready.places = append(ready.members, found.members...), append(ready.places, found.places...)
			}
			return false
		})
	})
	return fits
}

// domainIn returns the domain of a level that all the places are in; empty if there is none. It is for use
// within mirror.For.
func (s *seating) domainIn(mirror *mirror.Mirror, level int) string {
	if level == 0 || len(s.places) == 0 {
		return ""
	}
	nodes := make([]string, len(s.places))
	for i := range s.places {
		nodes[i] = s.places[i].Node
	}
	return mirror.DomainOfNodes(nodes, level)
}

// moving reports whether any of a gang's Pods waits for a place that is kept for it.
func (f *finder) moving(attempt *gangs.Attempt) bool {
	destinations := f.destinationsOf(attempt, f.requesterOf(attempt))
	ready, blocked, _ := f.sortArrivals(attempt, destinations)
	return len(ready.members)+blocked.pods > 0
}
