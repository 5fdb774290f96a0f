// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	recorder "falldio.github.io/gpu-controller/scheduler/journal"
	"falldio.github.io/gpu-controller/scheduler/mirror"
	"falldio.github.io/gpu-controller/scheduler/nodeproblems"
	"falldio.github.io/gpu-controller/scheduler/queues"
)

// finder finds places for gangs in the cluster as the mirror has it, with the filters' consent. It decides nothing
// about who gets them and gives none away: whatever it tries in the cluster is undone. It is for scheduling cycles.
type finder struct {
	mirror   *mirror.Mirror
	filters  *filters.Consultant
	line     *queues.Line
	problems *nodeproblems.Monitor
	// handles reports whether GPUs of a name are counted.
	handles func(corev1.ResourceName) bool
	levels  snapshot.Levels
	logger  klog.Logger
}

// watchLabels returns false if the nodes have to be refreshed, because a Pod selects by
// labels that were not tracked so far.
func (f *finder) watchLabels(attempt *gangs.Attempt) bool {
	known := true
	for i, m := range attempt.Waiting {
		if i == 0 || !sameQuestions(&m.Shape, &attempt.Waiting[i-1].Shape) {
			known = f.mirror.Watch(&m.Shape) && known
		}
	}
	return known
}

// sameQuestions reports whether two shapes are known to refer to the same labels and resources.
func sameQuestions(a, b *placement.Shape) bool {
	return a.Selector == b.Selector && a.Preference == b.Preference && slices.Equal(a.Others, b.Others)
}

// requestLater is requestOf for a time at which no node is kept for anybody any more.
func (f *finder) requestLater(attempt *gangs.Attempt) (*gangs.Request, error) {
	if attempt.Err != nil {
		return nil, attempt.Err
	}
	request := f.requestFor(attempt.Waiting, attempt.Need)
	request.Except = slices.Clone(attempt.Refused)
	if attempt.Labels.Level == "" {
		return request, nil
	}
	level, err := f.levels.Number(attempt.Labels.Level)
	if err != nil {
		return nil, err
	}
	request.Level, request.Required = level, attempt.Labels.Required
	request.Near = f.mirror.DomainOf(attempt.Placed, level)
	return request, nil
}

// plan returns places for a gang, or nil. blocked is set if the gang has to wait for
// places that are kept for it.
func (f *finder) plan(s *search) (found *seating, blocked *blockedMoves) {
	requester := f.requesterOf(s.attempt)
	if destinations := f.destinationsOf(s.attempt, requester); len(destinations) > 0 {
		return f.planAround(s, requester, destinations)
	}
	f.mirror.For(requester, func(cluster *placement.Cluster) { found = f.planIn(cluster, s, s.request) })
	return found, nil
}

// planIn returns places for a gang in the cluster as it is, or nil: those that its members are
// nominated for, if they are good.
func (f *finder) planIn(cluster *placement.Cluster, s *search, request *gangs.Request) *seating {
	if nominated := f.onNominated(s.attempt, request); nominated != nil {
		if found := f.planAnywhere(cluster, s, nominated); found != nil {
			return found
		}
	}
	return f.planAnywhere(cluster, s, request)
}

// planAnywhere returns places for a gang, if possible on nodes without faults that do not refuse Pods
// and that none of its members avoids.
func (f *finder) planAnywhere(cluster *placement.Cluster, s *search, request *gangs.Request) *seating {
	for _, last := range f.lastChoices(s.attempt) {
		if found := f.planOn(cluster, s, request.Without(last)); found != nil {
			return found
		}
	}
	return f.planOn(cluster, s, request)
}

// lastChoices returns which nodes to leave out at first, fewer and fewer: those with faults and
// those that the gang's members avoid, then only the former.
func (f *finder) lastChoices(attempt *gangs.Attempt) [][]string {
	faulty, avoided := f.faultyNodes(attempt), avoidedNodes(attempt)
	var choices [][]string
	if len(avoided) > 0 {
		choices = append(choices, gangs.Union(faulty, avoided))
	}
	if len(faulty) > 0 {
		choices = append(choices, faulty)
	}
	return choices
}

// faultyNodes returns the nodes on which Pods could not be bound or started lately.
func (f *finder) faultyNodes(attempt *gangs.Attempt) []string {
	return f.problems.LastChoices(attempt.Waiting[0].Pod().Namespace)
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
func (f *finder) planOn(cluster *placement.Cluster, s *search, request *gangs.Request) (found *seating) {
	request.NearFirst(func(request *gangs.Request) bool {
		plan, fits, err := s.plan(cluster, request)
		if err != nil {
			f.logger.Error(err, "A gang can't be planned", "gang", s.attempt.Group.Key)
		}
		if fits {
			found = &seating{}
			found.members, found.places = request.Assign(plan)
			preferNominated(plan, found.members, found.places)
		}
		return fits
	})
	return found
}

// rank returns the order of the nodes that have room for a Pod. A Pod that is being moved
// goes to the place that is kept for it; blocked is set if that is not free yet.
func (f *finder) rank(s *search) (order map[string]int, blocked *blockedMoves) {
	requester := f.requesterOf(s.attempt)
	ready, blocked, _ := f.sortArrivals(s.attempt, f.destinationsOf(s.attempt, requester))
	switch {
	case blocked.pods > 0:
		return nil, blocked
	case len(ready.places) > 0:
		return map[string]int{ready.places[0].Node: 0}, nil
	}
	order = map[string]int{}
	f.mirror.For(requester, func(cluster *placement.Cluster) {
		list := cluster.Rank(cluster.Request(s.request.Roles[0].Shape), cluster.Root())
		for i, ranked := range list {
			order[ranked.Node] = i
		}
		s.questions.Rank(cluster, &s.request.Gang, list, s.request.Except)
	})
	last := len(order)
	for _, node := range gangs.Union(f.faultyNodes(s.attempt), avoidedNodes(s.attempt)) {
		if rank, fits := order[node]; fits {
			order[node] = last + rank
		}
	}
	for _, node := range s.request.Except {
		delete(order, node)
	}
	return order, nil
}

// placeOn returns the place that a Pod gets on a node: the one that is kept for it if it
// is being moved there.
func (f *finder) placeOn(attempt *gangs.Attempt, node string, questions *recorder.Questions) (place placement.Place, fits bool) {
	requester := f.requesterOf(attempt)
	ready, _, _ := f.sortArrivals(attempt, f.destinationsOf(attempt, requester))
	if len(ready.places) > 0 && ready.places[0].Node == node {
		return ready.places[0], true
	}
	f.mirror.For(requester, func(cluster *placement.Cluster) {
		shape := f.shapeOf(&attempt.Waiting[0].Shape)
		place, fits = cluster.On(node, cluster.Request(shape))
		questions.On(cluster, shape, node, &place, fits)
	})
	return place, fits
}

// requestFor groups members by their needs, and by what filters look at. The first ones, as
// many as need, must get a place; the others get one if there is room.
func (f *finder) requestFor(waiting []*gangs.Member, need int) *gangs.Request {
	class := func(m *gangs.Member) string { return f.filters.ClassOf(m).Key }
	shape := func(m *gangs.Member) placement.Shape { return f.shapeOf(&m.Shape) }
	return &gangs.Request{Members: snapshot.NewMembers(waiting, shape, class, need)}
}

// shapeOf returns what a Pod needs in the engine's terms. Cards that the engine can't count, or is not to, are
// left to kube-scheduler, as resources are that no node lists. It may be called within With or For of the mirror.
func (f *finder) shapeOf(shape *placement.Shape) placement.Shape {
	if name := snapshot.GPUResource(shape); !f.handles(name) || !f.mirror.Lists(name) {
		return f.mirror.Counted(snapshot.WithoutCards(*shape))
	}
	return f.mirror.Counted(*shape)
}

// requesterOf returns an attempt's requester, for the mirror.
func (f *finder) requesterOf(attempt *gangs.Attempt) *mirror.Requester {
	requester := &mirror.Requester{Priority: attempt.Priority, Shadows: f.line.Shadows(attempt)}
	if !f.mirror.HasReservations() {
		return requester
	}
	requester.Pods = make(map[string]bool, len(attempt.Waiting))
	for _, m := range attempt.Waiting {
		requester.Pods[keyOf(m)] = true
	}
	return requester
}

// search is an attempt to place a gang, and collects what is found out on the way.
type search struct {
	attempt *gangs.Attempt
	begin   time.Time
	// request is what the gang asks for, and keys identify that. It is nil as long as that is not known.
	request *gangs.Request
	keys    filters.Keys
	// check asks kube-scheduler's filters about each place; nil if no check is needed.
	// refused is what they refused in this attempt, or in an equal one before.
	check   *filters.Checker
	refused *filters.Refusals
	// questions collects the questions to the engine; nil if they are not recorded.
	questions *recorder.Questions
}

// key returns the key for what is known of the gang after this attempt.
func (s *search) key() string { return s.keys.After(s.refused.Any()) }

// unrecorded returns the search without a record of its questions: what follows is for an explanation.
func (s *search) unrecorded() *search {
	other := *s
	other.questions = nil
	return &other
}

// plan plans the gang as a request says, with the filters' consent.
func (s *search) plan(cluster *placement.Cluster, request *gangs.Request) (plan *placement.Plan, fits bool, err error) {
	gang := request.Gang
	if s.check != nil {
		gang.Checker = s.check
	}
	return s.questions.Plan(cluster, &gang, request.Only)
}
