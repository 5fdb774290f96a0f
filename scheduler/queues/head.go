// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

const (
	// mostCandidates is how many waiting gangs are considered for bookings at a time, and mostOfNamespace how many
	// of one namespace.
	mostCandidates, mostOfNamespace = 512, 128
	// maxClasses is for how many classes of nodes all bookings can be made that are configured; with more classes,
	// each gets fewer.
	maxClasses = 4
	// limitPeriod is how long a gang is left out that its queue does not let start.
	limitPeriod = 5 * time.Second
)

// nodeNeeds is what decides on which nodes a gang can go, as far as it is not about how much they have.
type nodeNeeds struct {
	models, pool string
	selector     placement.Selector
}

func nodeNeedsOf(shape *placement.Shape) nodeNeeds {
	return nodeNeeds{strings.Join(shape.Models, ","), shape.Pool, shape.Selector}
}

// candidates returns the groups of a line that may get bookings, in order: of those that ask for the same nodes in the
// same queue, as many as can get some. It does not depend on how many wait how long that is.
func (l *Line) candidates(entries []Place, now time.Time) (list []Place) {
	type rivals struct {
		nodeNeeds
		namespace, queue string
	}
	leftOut, kept := l.ahead.leftOut(now), l.ahead.groups()
	maps.Copy(kept, l.core.KeptFor())
	among, ofNamespace := map[rivals]int{}, map[string]int{}
	for i := range entries {
		entry := &entries[i]
		if !entry.isBookable() || leftOut[entry.Key] {
			continue
		}
		these := rivals{nodeNeedsOf(entry.Shape), entry.Leader.Namespace, entry.queue}
		if !kept[entry.Key] && (among[these] >= l.Args.Reservations || ofNamespace[these.namespace] >= mostOfNamespace || len(list) >= mostCandidates) {
			continue
		}
		among[these]++
		ofNamespace[these.namespace]++
		list = append(list, *entry)
	}
	return list
}

// leftOut returns the gangs that can't have bookings now.
func (a *ahead) leftOut(now time.Time) map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	groups := make(map[string]bool, len(a.noStartUntil))
	for group, until := range a.noStartUntil {
		if now.Before(until) {
			groups[group] = true
		}
	}
	for group := range a.stalls {
		if a.pauses(group, now) {
			groups[group] = true
		}
	}
	return groups
}

// groups returns the gangs that have bookings.
func (a *ahead) groups() map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	groups := make(map[string]bool, len(a.bookings))
	for i := range a.bookings {
		groups[a.bookings[i].Key] = true
	}
	return groups
}

// head is the gangs that get bookings, in order, and what they are by their keys.
type head struct {
	waiting  []backfill.Waiting
	requests map[string]*gangs.Request
	leaders  map[string]*corev1.Pod
	owners   map[string]owner
}

// owner is what decides which Pods come before a gang that has a booking.
type owner struct {
	queue string
	rank  gangs.Rank
}

func ownerOf(place *Place) owner {
	return owner{place.queue, gangs.Rank{Priority: place.Priority, Since: place.Since, Group: place.Key}}
}

// exclude has a gang get no place on some further nodes.
func (h *head) exclude(group string, nodes []string) {
	request := h.requests[group].Without(nodes)
	h.requests[group] = request
	for i := range h.waiting {
		if h.waiting[i].Key == group {
			h.waiting[i].Gang = &request.Gang
		}
	}
}

// headOfLine returns the gangs that get bookings: the first that have found no place and may
// start as far as their queues are concerned. Those that have bookings
// already keep them when others come before them, unless these become too many. Those come before all others
// for which Pods leave: their nodes are kept from the others until they have started.
func (l *Line) headOfLine(now time.Time) *head {
	h := &head{requests: map[string]*gangs.Request{}, leaders: map[string]*corev1.Pod{}, owners: map[string]owner{}}
	leftOut, kept := l.ahead.leftOut(now), l.ahead.groups()
	entries := slices.DeleteFunc(withFirst(l.order.bookable(), l.core.KeptFor()), func(entry Place) bool { return leftOut[entry.Key] })
	classes := l.nodeClasses(entries)
	contenders := make([]contender, len(entries))
	for i := range entries {
		contenders[i] = contender{class: classes[i], namespace: entries[i].Leader.Namespace, booked: kept[entries[i].Key]}
	}
	for _, i := range choose(contenders, l.Args.Reservations, func(i int) bool { return h.add(l, &entries[i], now) }) {
		entry := &entries[i]
		h.waiting = append(h.waiting, backfill.Waiting{Key: entry.Key, Gang: &h.requests[entry.Key].Gang, Bound: cmp.Or(entry.runtime.Longest(), assumedRuntime)})
		h.leaders[entry.Key], h.owners[entry.Key] = entry.Leader, ownerOf(entry)
	}
	return h
}

// add reports whether a group may have a booking as far as it and its queue are concerned. If so, it keeps its gang.
func (h *head) add(l *Line, entry *Place, now time.Time) bool {
	attempt := l.Registry.Look(entry.Leader.UID)
	if attempt == nil || attempt.Err != nil {
		return false
	}
	request, mayStart := l.requestAhead(attempt)
	if !mayStart || attempt.Extra { // those above a gang's minimum join it if there is room
		l.ahead.leaveOut(entry.Key, now.Add(limitPeriod)) // others of its kind are considered meanwhile
		return false
	}
	h.requests[entry.Key] = request.Without(l.ahead.refusedTo(entry.Key))
	return true
}

// requestAhead returns what a gang asks for when no node is kept for anybody any more. mayStart is false if its queue,
// or its claims, don't let it start.
func (l *Line) requestAhead(attempt *gangs.Attempt) (request *gangs.Request, mayStart bool) {
	request, err := l.core.RequestLater(attempt)
	if err != nil || l.core.UnpreparedClaims(attempt) != "" {
		return nil, false
	}
	request, admitted := l.Admit(attempt, request)
	if request.Required {
		request = request.In(request.Near)
	}
	return request, admitted.Waits == ""
}

// withFirst returns entries with those of some groups before all others.
func withFirst(entries []Place, groups map[string]bool) []Place {
	first, others := make([]Place, 0, len(entries)), make([]Place, 0, len(entries))
	for i := range entries {
		if groups[entries[i].Key] {
			first = append(first, entries[i])
		} else {
			others = append(others, entries[i])
		}
	}
	return append(first, others...)
}

// nodeClasses returns what each of some groups competes for: the models and pools of the nodes that are such as it asks
// for. Groups of one class can wait for the same nodes.
func (l *Line) nodeClasses(entries []Place) []string {
	a := &l.ahead
	if version := l.Mirror.NodesVersion(); a.classes == nil || a.nodesVersion != version || len(a.classes) > mostCandidates {
		a.classes, a.nodesVersion = map[nodeNeeds]string{}, version
	}
	classes := make([]string, len(entries))
	var kinds []*placement.State
	for i := range entries {
		needs := nodeNeedsOf(entries[i].Shape)
		if _, known := a.classes[needs]; !known {
			l.Mirror.With(func(cluster *placement.Cluster) {
				if kinds == nil {
					kinds = kindsOf(cluster)
				}
				a.classes[needs] = classOfNodes(kinds, cluster.Request(l.core.ShapeOf(entries[i].Shape)))
			})
		}
		classes[i] = a.classes[needs]
	}
	return classes
}

// CompetesFor returns what a gang that asks for a shape competes for.
func (l *Line) CompetesFor(shape *placement.Shape) string {
	return l.nodeClasses([]Place{{Waiting: gangs.Waiting{Shape: shape}}})[0]
}

// kindsOf returns a state of each kind of node.
func kindsOf(cluster *placement.Cluster) []*placement.State {
	kinds := map[int]*placement.State{}
	cluster.Root().States(func(state *placement.State, _ int) { kinds[state.Kind()] = state })
	return slices.Collect(maps.Values(kinds))
}

func classOfNodes(kinds []*placement.State, request *placement.Request) string {
	var parts []string
	for _, kind := range kinds {
		if kind.Suits(request) {
			parts = append(parts, kind.Model()+" in "+kind.Pool())
		}
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ", ")
}

// contender is a gang that may get a booking.
type contender struct {
	class, namespace string
	// booked is true if it has one.
	booked bool
}

// choose returns which contenders get bookings, in their order: the first of each class, so many that a backlog of
// one takes nothing from another. While others of a class wait, one namespace gets at most half of them. eligible is
// only asked of those that would get one.
func choose(list []contender, most int, eligible func(i int) bool) []int {
	type share struct{ class, namespace string }
	judged, chosen := make([]bool, len(list)), []int{}
	ofClass, ofNamespace, rank := map[string]int{}, map[share]int{}, make([]int, len(list))
	pick := func(allowed func(one *contender) bool) {
		for i := range list {
			one := &list[i]
			if judged[i] || !allowed(one) {
				continue
			}
			if judged[i] = true; eligible(i) {
				rank[i] = ofClass[one.class]
				ofClass[one.class]++
				ofNamespace[share{one.class, one.namespace}]++
				chosen = append(chosen, i)
			}
		}
	}
	pick(func(one *contender) bool {
		return ofClass[one.class] < most && ofNamespace[share{one.class, one.namespace}] < (most+1)/2
	})
	pick(func(one *contender) bool { return ofClass[one.class] < most })
	pick(func(one *contender) bool { return one.booked && ofClass[one.class] < 2*most })
	// All classes have the same number if there are too many.
	slices.SortStableFunc(chosen, func(i, j int) int { return cmp.Or(cmp.Compare(rank[i], rank[j]), cmp.Compare(i, j)) })
	chosen = chosen[:min(len(chosen), maxClasses*most)]
	slices.Sort(chosen)
	return chosen
}
