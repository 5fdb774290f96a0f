// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// place is where the scheduling queue has a Pod.
type place string

const (
	unqueued  place = "unqueued" // the queue has not observed it
	held      place = "held"     // by PreEnqueue
	active    place = "active"
	inCycle   place = "in its scheduling cycle"
	turned    place = "turned down" // stays until it is activated
	atBarrier place = "at the barrier"
	leaving   place = "leaving the barrier" // rejected, but its Unreserve has not run
	binding   place = "binding"
	bound     place = "bound"
)

// simulated is a Pod in the simulation.
type simulated struct {
	pod      *corev1.Pod
	place    place
	observed bool
	// again is true if the Pod is to be queued when its cycle has failed, as it was
	// activated meanwhile.
	again bool
	// plan is the one with which it came to the barrier.
	plan uint64
}

// simulation is what kube-scheduler does around a registry, in random order.
type simulation struct {
	*fixture
	dice *rand.Rand
	log  []string
	pods map[types.UID]*simulated
	// seats are those that the registry has given, by the plan's number.
	seats map[types.UID]uint64
	// minimum is how many have to pass the barrier with a plan.
	minimum map[uint64]int
	opened  map[uint64]bool
	next    int
	// queues is true if there are GPUQueues from time to time.
	queues bool
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	t.Helper()
	slow := timing
	slow.Settle = time.Duration(seed%4) * time.Second
	f := newFixture(t)
	f.Registry = NewRegistry(slow)
	f.turnstile.size = 2
	f.Serve(ours)
	f.Start()
	return &simulation{
		fixture: f, queues: seed%2 == 1, dice: rand.New(rand.NewPCG(seed, 1)), pods: map[types.UID]*simulated{},
		seats: map[types.UID]uint64{}, minimum: map[uint64]int{}, opened: map[uint64]bool{},
	}
}

func (s *simulation) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

// pick returns a Pod that is in one of some places; nil if there is none.
func (s *simulation) pick(places ...place) *simulated {
	var list []*simulated
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		if one := s.pods[uid]; slices.Contains(places, one.place) {
			list = append(list, one)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[s.dice.IntN(len(list))]
}

// queue asks PreEnqueue.
func (s *simulation) queue(one *simulated) {
	one.again = false
	if one.pod.DeletionTimestamp != nil || len(one.pod.Spec.SchedulingGates) > 0 || s.gate(one.pod) != "" {
		one.place = held
		return
	}
	one.place = active
}

// comeBack is what becomes of a Pod whose cycle failed.
func (s *simulation) comeBack(one *simulated) {
	if one.pod.Spec.NodeName != "" {
		one.place = bound // by another one
		return
	}
	if one.again {
		s.queue(one)
		return
	}
	one.place = turned
}

func (s *simulation) do(actions Actions) {
	for _, uid := range actions.Release {
		if _, seated := s.seats[uid]; !seated && s.pods[uid] != nil && s.pods[uid].place != bound {
			s.t.Fatalf("Pod %s gives a seat back that it does not have", uid)
		}
		delete(s.seats, uid)
	}
	for _, uid := range actions.Reject {
		if one := s.pods[uid]; one != nil && one.place == atBarrier {
			one.place = leaving
		}
	}
	for _, p := range actions.Activate {
		one := s.pods[p.UID]
		if one == nil {
			continue // the queue does not know it any more
		}
		switch one.place {
		case held, turned:
			s.queue(one)
		case inCycle, leaving, atBarrier:
			one.again = true
		default: // it is queued, or beyond that
		}
	}
	if actions.Due {
		s.do(Actions{Activate: s.Due(s.now(), 3)})
	}
}

// turn gives all gangs other turns, or none any more.
func (s *simulation) turn() {
	var turns map[string]float64
	if s.dice.IntN(8) > 0 {
		turns = map[string]float64{}
		for key := range s.groups {
			if s.dice.IntN(4) > 0 {
				turns[key] = float64(s.dice.IntN(100))
			}
		}
	}
	s.note("turns: %v", turns)
	s.do(s.SetTurns(turns))
	if keys := slices.Sorted(maps.Keys(s.groups)); len(keys) > 0 && s.dice.IntN(2) == 0 {
		one := keys[s.dice.IntN(len(keys))]
		s.note("hurry %s", one)
		s.Hurry([]string{one}, s.now())
	}
}

// cycle is a Pod's scheduling cycle.
func (s *simulation) cycle(one *simulated) {
	uid := one.pod.UID
	one.place, one.again = inCycle, false
	if one.pod.DeletionTimestamp != nil {
		one.place = held
		return
	}
	if _, seated := s.SeatOf(uid); !seated {
		attempt := s.Attempt(uid)
		if s.dice.IntN(6) == 0 { // beside the attempt
			s.wait()
		}
		if attempt == nil {
			s.note("%s: nothing to plan", uid)
			s.comeBack(one)
			return
		}
		if attempt.Err != nil || s.dice.IntN(3) == 0 {
			s.note("%s: fails", uid)
			if s.dice.IntN(3) == 0 {
				s.FailAttempt(attempt.Group, Failure{Began: s.now(), Ended: s.now(), Never: true})
			} else {
				s.Fail(attempt.Group, s.now(), s.now().Add(time.Duration(s.dice.IntN(5))*time.Second))
			}
			s.comeBack(one)
			return
		}
		s.plan(attempt, uid)
	}
	if s.dice.IntN(12) == 0 {
		again, actions := s.refuse(one.pod, fmt.Sprint("node-", s.dice.IntN(3)))
		s.note("%s: is refused, again %t", uid, again)
		s.do(actions)
		if again {
			s.do(Actions{Activate: []*corev1.Pod{one.pod}})
		} else {
			s.Fail(s.Member(uid).Group(), s.now(), s.now().Add(time.Second))
		}
		s.comeBack(one)
		return
	}
	s.reserve(one)
}

func (s *simulation) plan(attempt *Attempt, turn types.UID) {
	count := attempt.Need + s.dice.IntN(len(attempt.Waiting)-attempt.Need+1)
	number, actions := s.Seat(attempt.Group, attempt.Waiting[:count], placesFor(count), turn, s.now())
	if number == 0 {
		s.t.Fatalf("%s could not take its seats, though nothing has changed", attempt.Group.Key)
	}
	s.note("%s: %d seats, plan %d", turn, count, number)
	for _, m := range attempt.Waiting[:count] {
		s.seats[m.UID] = number
	}
	s.minimum[number] = 1
	if !attempt.Group.Alone && len(attempt.Placed) == 0 {
		s.minimum[number] = attempt.Labels.Min
	}
	s.do(actions)
}

// reserve is Reserve and Permit.
func (s *simulation) reserve(one *simulated) {
	uid := one.pod.UID
	number := s.seats[uid]
	one.plan = number
	arrival := s.Barrier(uid, number)
	allow := arrival.Allow
	s.note("%s: at the barrier, open %t, refused %t", uid, arrival.Open, arrival.Refused)
	switch {
	case arrival.Refused:
		s.t.Fatalf("Pod %s has a seat and is refused", uid)
	case !arrival.Open:
		one.place = atBarrier
		return
	}
	if slices.ContainsFunc(allow, func(other types.UID) bool { return s.pods[other].place == leaving }) {
		s.rejectGang(one, allow)
		return
	}
	if len(allow)+1 < s.minimum[number] {
		s.t.Fatalf("%d pass the barrier, the minimum is %d", len(allow)+1, s.minimum[number])
	}
	s.opened[number] = true
	one.place = binding
	for _, other := range allow {
		if s.pods[other].place != atBarrier {
			s.t.Fatalf("Pod %s may go on, though it is %s", other, s.pods[other].place)
		}
		s.pods[other].place = binding
	}
	s.do(arrival.Actions)
}

// rejectGang is what the planner does if a member that may proceed is leaving the barrier
// already, because it has waited for too long.
func (s *simulation) rejectGang(last *simulated, others []types.UID) {
	s.note("the barrier is closed again")
	s.opened[s.seats[last.pod.UID]] = true // its seats are given back one by one
	for _, uid := range append(others, last.pod.UID) {
		actions := s.Withdraw(uid, s.seats[uid]).Actions
		actions.Reject = append(actions.Reject, uid)
		s.do(actions)
	}
	s.comeBack(last)
}

// withdraw is Unreserve, which may come long after the plan was given up.
func (s *simulation) withdraw(one *simulated) {
	now, seated := s.seats[one.pod.UID]
	withdrawal := s.Withdraw(one.pod.UID, one.plan)
	if seated && now != one.plan && (withdrawal.Aborts > 0 || len(withdrawal.Actions.Release) > 0) {
		s.t.Fatalf("Pod %s speaks of plan %d, and plan %d suffers", one.pod.UID, one.plan, now)
	}
	if withdrawal.Aborts > 0 {
		s.Fail(s.Member(one.pod.UID).Group(), s.now(), s.now().Add(time.Second))
	}
	s.do(withdrawal.Actions)
}

// act does something.
func (s *simulation) act() {
	switch choice := s.dice.IntN(20); {
	case choice < 3 && len(s.pods) < 12:
		s.create()
	case choice < 7:
		s.wait()
	case choice < 12:
		if one := s.pick(active); one != nil {
			s.cycle(one)
		}
	case choice < 15:
		s.lose()
	case choice < 17:
		s.bind()
	case choice < 18:
		s.deliver(s.pick(unqueued))
		s.ungate(s.pick(held))
	case choice < 19 && s.dice.IntN(2) == 0:
		s.changePodGroup()
	case choice < 19 || s.dice.IntN(4) > 0:
		s.end()
	default:
		s.steal()
	}
}

// wait lets time pass, or something else that concerns all gangs happen.
func (s *simulation) wait() {
	choice := s.dice.IntN(4)
	if s.queues && s.dice.IntN(4) == 0 {
		s.turn()
		return
	}
	switch choice {
	case 0:
		s.note("time passes")
		s.step(time.Duration(s.dice.IntN(20)) * time.Second)
	case 1:
		if s.dice.IntN(2) == 0 {
			s.note("wake all")
			s.WakeAll(s.now())
			return
		}
		s.note("wake")
		s.Wake(s.now())
	default:
		want := scanForDue(s.Registry, s.now(), 3)
		list := s.Due(s.now(), 3)
		s.note("due: %v", namesOf(list))
		if got := namesOf(list); !slices.Equal(got, want) {
			s.t.Fatalf("due are %v, a scan finds %v", got, want)
		}
		s.do(Actions{Activate: list})
	}
}

// lose lets a Pod wait at the barrier for too long, or leave it.
func (s *simulation) lose() {
	if s.dice.IntN(3) == 0 {
		if one := s.pick(atBarrier); one != nil {
			s.note("%s has waited for too long", one.pod.UID)
			one.place = leaving
		}
		return
	}
	if one := s.pick(leaving); one != nil {
		s.note("%s leaves the barrier", one.pod.UID)
		s.withdraw(one)
		s.comeBack(one)
	}
}

func (s *simulation) create() {
	s.next++
	name := fmt.Sprintf("p%d", s.next)
	p := pod(name)
	if gang := s.dice.IntN(4); gang > 0 {
		p = pod(name, in(fmt.Sprint("g", gang), max(1, 1+gang-s.dice.IntN(9)/8), s.dice.IntN(4)))
	}
	if s.dice.IntN(3) == 0 {
		p = s.podOfPodGroup(name)
	}
	if s.dice.IntN(6) == 0 {
		gated(p)
	}
	created(time.Duration(s.dice.IntN(3)) * time.Second)(p)
	prioritized(int32(s.dice.IntN(3)))(p)
	one := &simulated{pod: p, place: unqueued}
	s.pods[p.UID] = one
	s.note("%s comes, gang %s", name, p.Labels["falldio.com/pod-group"])
	s.deliver(one)
}

// deliver shows a Pod to either the queue or the registry, and to the other one later
// or not before it ends.
func (s *simulation) deliver(one *simulated) {
	if one == nil {
		return
	}
	if one.observed || s.dice.IntN(2) == 0 {
		s.note("the queue observes %s", one.pod.UID)
		s.queue(one)
	}
	if !one.observed {
		s.observe(one)
	}
}

// ungate removes a Pod's scheduling gates. The queue and the registry observe it in any
// order.
func (s *simulation) ungate(one *simulated) {
	if one == nil || len(one.pod.Spec.SchedulingGates) == 0 || !one.observed || s.dice.IntN(2) == 0 {
		return
	}
	s.note("%s loses its gates", one.pod.UID)
	one.pod = one.pod.DeepCopy()
	one.pod.Spec.SchedulingGates, one.pod.ResourceVersion = nil, "2"
	first := s.dice.IntN(2) == 0
	if first {
		s.queue(one)
	}
	s.do(s.Observe(one.pod))
	if !first && one.place == held {
		s.queue(one)
	}
}

func (s *simulation) observe(one *simulated) {
	one.observed = true
	s.note("the registry observes %s", one.pod.UID)
	s.do(s.Observe(one.pod))
}

func (s *simulation) bind() {
	one := s.pick(binding)
	if one == nil {
		return
	}
	if s.dice.IntN(4) == 0 { // the API server did not take it
		s.note("%s can't be bound", one.pod.UID)
		s.withdraw(one)
		s.queue(one)
		return
	}
	s.note("%s is bound", one.pod.UID)
	seat, _ := s.SeatOf(one.pod.UID)
	one.pod, one.place = onNode(one.pod, seat.Node), bound
	delete(s.seats, one.pod.UID)
	s.do(s.Observe(one.pod))
}

// steal has another scheduler bind a Pod.
func (s *simulation) steal() {
	one := s.pick(held, active, turned, atBarrier)
	if one == nil || !one.observed || one.pod.DeletionTimestamp != nil {
		return
	}
	s.note("%s is bound by another", one.pod.UID)
	one.pod = onNode(one.pod, "b")
	if one.place == atBarrier {
		one.place = leaving
	} else {
		one.place = bound
	}
	s.do(s.Observe(one.pod))
}

// end asks a Pod to end, or ends it.
func (s *simulation) end() {
	one := s.pick(unqueued, held, active, turned, atBarrier, leaving, binding, bound)
	if one == nil || !one.observed {
		return
	}
	if one.pod.DeletionTimestamp == nil && s.dice.IntN(2) == 0 {
		s.note("%s is asked to end", one.pod.UID)
		one.pod = ending(one.pod)
		s.do(s.Observe(one.pod))
		return
	}
	if one.place == atBarrier || one.place == leaving || one.place == binding {
		return // these come back from their binding cycle first
	}
	s.note("%s is gone", one.pod.UID)
	delete(s.pods, one.pod.UID)
	s.do(s.Forget(one.pod.UID))
	s.gate(one.pod) // the queue may observe it only now
}

// check checks the invariants.
func (s *simulation) check() {
	s.t.Helper()
	for _, g := range s.groups {
		s.checkCounts(g)
		if g.plan != nil {
			s.checkPlan(g)
		} else {
			s.checkIdle(g)
		}
	}
	s.checkIndexes()
	s.checkHeaps()
	for _, m := range s.members {
		s.checkMember(m)
		s.checkPodGroup(m)
	}
}

// checkMember checks that a Pod has the seat that it was given.
func (s *simulation) checkMember(m *Member) {
	s.t.Helper()
	number, seated := s.seats[m.UID]
	switch {
	case s.pods[m.UID] == nil:
		s.t.Fatalf("Pod %s is remembered, but gone", m.UID)
	case m.seat == nil && seated:
		s.t.Fatalf("Pod %s has lost its seat of plan %d, and no action released it", m.UID, number)
	case m.seat == nil:
	case !seated || number != m.seat.Plan:
		s.t.Fatalf("Pod %s has a seat of plan %d, it was given one of plan %d", m.UID, m.seat.Plan, number)
	case !s.opened[number] && (m.group.plan == nil || m.group.plan.number != number):
		s.t.Fatalf("Pod %s has a seat of plan %d, which was given up", m.UID, number)
	}
}

func (s *simulation) checkCounts(g *Group) {
	s.t.Helper()
	bound := 0
	for _, m := range g.members {
		if m.bound() {
			bound++
		}
	}
	if bound != g.bound {
		s.t.Fatalf("of gang %s %d are bound, it counts %d", g.Key, bound, g.bound)
	}
	before, wrongBefore := g.spec()
	g.merged, g.wrong = nil, nil
	if after, wrong := g.spec(); *before != *after || (wrong == nil) != (wrongBefore == nil) {
		s.t.Fatalf("gang %s: merged again %+v, cached %+v", g.Key, after, before)
	}
}

// checkPlan checks that all Pods with a seat will come to the barrier, or leave.
func (s *simulation) checkPlan(g *Group) {
	s.t.Helper()
	missing := 0
	for _, m := range g.plan.members {
		one := s.pods[m.UID]
		if m.seat == nil || m.seat.Plan != g.plan.number {
			s.t.Fatalf("gang %s: Pod %s of plan %d has no seat", g.Key, m.UID, g.plan.number)
		}
		if m.seat.reserved {
			continue
		}
		missing++
		switch {
		case one.place == active, one.place == unqueued:
		case one.place == leaving && one.again:
		default:
			s.t.Fatalf("gang %s: Pod %s has a seat and is %s: it will never come to the barrier", g.Key, m.UID, one.place)
		}
	}
	if missing != g.plan.missing || missing == 0 {
		s.t.Fatalf("gang %s: %d are missing at the barrier, it counts %d", g.Key, missing, g.plan.missing)
	}
}

// isQueued reports whether a member of a gang is in the queue, or will be by itself.
func (s *simulation) isQueued(g *Group) bool {
	return slices.ContainsFunc(g.waitingMembers(), func(m *Member) bool {
		switch one := s.pods[m.UID]; one.place {
		case active, unqueued:
			return true
		case leaving:
			return one.again || g.leader == m // its Unreserve activates the leader
		default:
			return !one.observed
		}
	})
}

// checkIdle checks that a gang that could be planned will be.
func (s *simulation) checkIdle(g *Group) {
	s.t.Helper()
	if len(g.waitingMembers()) == 0 || !g.complete() || s.isQueued(g) {
		return
	}
	// No Pod is queued: at some time one must be.
	later := s.now().Add(10 * timing.Again)
	if !isDue(s.Registry, g, later) {
		s.t.Fatalf("gang %s: no Pod is queued, and none ever will be", g.Key)
	}
	if s.turnstile.holds(g) {
		if isDue(s.Registry, g, s.now()) && !slices.ContainsFunc(g.retry.positions[:], func(position int32) bool { return position > 0 }) {
			s.t.Fatalf("gang %s: it waits for its turn, and is in no heap", g.Key)
		}
		return
	}
	if leader := s.pods[leaderOf(g).UID]; s.Gate(leader.pod, later) != "" {
		s.t.Fatalf("gang %s: its leader is held back forever: %s", g.Key, s.Gate(leader.pod, later))
	}
}

func TestRandomSequencesLeaveNoGangBehind(t *testing.T) {
	t.Parallel()
	seeds := uint64(1500)
	if testing.Short() {
		seeds = 300
	}
	for seed := range seeds {
		passed := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newSimulation(t, seed)
			defer func() {
				if t.Failed() {
					t.Logf("steps:\n%s", strings.Join(s.log, "\n"))
				}
			}()
			for range 150 {
				s.act()
				s.check()
			}
			s.finish()
		})
		if !passed {
			return // one is enough to look at
		}
	}
}

// finish lets everything end, after which nothing may be left.
func (s *simulation) finish() {
	s.t.Helper()
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		delete(s.pods, uid)
		s.do(s.Forget(uid))
	}
	if len(s.members)+len(s.groups)+len(s.seats)+len(s.mixed)+len(s.unbound)+len(s.changed)+len(s.turnstile.inside)+len(s.retries.newcomers.namespaces) > 0 || s.Count() != (Counts{}) {
		s.t.Fatalf("left are %d Pods, %d groups, %d seats, %d groups inside", len(s.members), len(s.groups), len(s.seats), len(s.turnstile.inside))
	}
}
