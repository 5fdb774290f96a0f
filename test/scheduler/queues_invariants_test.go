// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// share is a queue as the invariants see it: of all models together, in whole GPUs.
type share struct {
	parent     string
	guaranteed int
	// limit is 0 for none.
	limit int
	// minRuntime and notice are how what it has borrowed is taken back.
	minRuntime, notice time.Duration
}

// bounds are how long things may take, by the clock that runs slower on a busy machine.
type bounds struct {
	// step is how long one step may take that nothing hinders: a scheduling cycle, a Pod that ends, the next Pod that
	// is created.
	step time.Duration
	// retry is after how long a gang is tried again although nothing has happened that it waits for: the end of a
	// minimum run time, for one.
	retry time.Duration
	// takeover is how much later everything may happen because gpu-scheduler or gpu-controller was killed once.
	takeover time.Duration
	// longest is for how long work runs at most that declares how long it runs.
	longest time.Duration
	// drain is how long all that waits takes together, at most.
	drain time.Duration
}

// owed is how long a queue may wait at most for what it is guaranteed, if others have borrowed it: they run for at
// least minRuntime, go on for notice after they were told, and end.
func (b *bounds) owed(minRuntime, notice time.Duration) time.Duration {
	return minRuntime + notice + b.retry + b.step
}

// whole is how long a gang of all GPUs may wait at most, once no queue gets what it is guaranteed any more, all nodes
// are usable, and a scheduler runs: what runs then ends by what it has declared, and what starts beside the gang's
// reservation ends before that. What was predicted to end earlier, and does not, makes both true for a second time.
func (b *bounds) whole() time.Duration { return 2*b.longest + b.retry + b.step }

// invariants reads a history and finds what must not have happened. It knows no clock and no cluster.
type invariants struct {
	shares map[string]share
	bounds bounds
	// whole is the queue of the gangs that need all GPUs.
	whole string

	now   time.Duration
	pods  map[types.UID]*podFact
	nodes map[string]*nodeFact
	kills []*fact
	marks map[mark]time.Duration
	// hindered is when gpu-scheduler was killed, or a node was not usable, the last time.
	hindered time.Duration

	gangs    map[string]*gangStory
	promises map[types.UID]*promiseStory
	usage    map[string]*usageStory
	// most is what each queue has held at most.
	most     map[string]int
	problems []string
	// found counts what was checked: an invariant that nothing has put to the test proves nothing.
	found proof
}

// proof is how often the invariants were put to the test.
type proof struct {
	// owed counts gangs that others had to give something back for, or that got what was free, and longestOwed is how
	// long one waited at most.
	owed        int
	longestOwed time.Duration
	// promises counts promised starts, later those that were moved later noticeably.
	promises, later int
	// statuses counts what queues said about their GPU time, and whole is how long a gang of all GPUs waited at most.
	statuses int
	whole    time.Duration
}

func newInvariants(shares map[string]share, b bounds, whole string) *invariants {
	return &invariants{
		shares: shares, bounds: b, whole: whole, pods: map[types.UID]*podFact{}, nodes: map[string]*nodeFact{}, marks: map[mark]time.Duration{},
		gangs: map[string]*gangStory{}, promises: map[types.UID]*promiseStory{}, usage: map[string]*usageStory{}, most: map[string]int{},
	}
}

// check returns what is wrong with a history, and what was put to the test.
func (v *invariants) check(facts []fact) (problems []string, found proof) {
	for i := range facts {
		v.take(&facts[i])
	}
	v.checkPromisesLeft()
	v.checkUsage()
	v.checkStarts()
	return v.problems, v.found
}

// exceeded returns only where a queue held more than its limit.
func (v *invariants) exceeded(facts []fact) (problems []string) {
	for i := range facts {
		if facts[i].pod != nil {
			v.now = facts[i].at
			v.takePod(&facts[i])
		}
	}
	return v.problems
}

func (v *invariants) take(f *fact) {
	v.now = f.at
	switch {
	case f.pod != nil:
		v.takePod(f)
	case f.node != nil:
		v.nodes[f.node.name] = f.node
		if !f.node.usable {
			v.hindered = f.at
		}
	case f.task != nil:
		v.takeTask(f.task)
	case f.used != nil:
		v.usageOf(f.used.queue).take(f.used)
	case f.postponed != nil:
		v.promiseOf(f.postponed.pod).reasons++
	case f.killed != "":
		v.kills = append(v.kills, f)
		if f.killed == gpuScheduler {
			v.hindered = f.at
		}
	case f.mark != "":
		v.marks[f.mark] = f.at
	}
	if f.pod != nil || f.node != nil {
		v.checkGuarantees()
	}
	v.checkPromises()
}

func (v *invariants) takePod(f *fact) {
	pod := f.pod
	v.charge(f)
	v.takePromise(pod, f.wall)
	if pod.gone || pod.ended {
		delete(v.pods, pod.uid)
	} else {
		v.pods[pod.uid] = pod
	}
	v.checkLimits(pod)
	v.gangOf(pod.gang).seen(v.podsOf(pod.gang), f.at, v.hindered)
}

func (v *invariants) problem(format string, args ...any) {
	const most = 50
	if len(v.problems) < most {
		v.problems = append(v.problems, fmt.Sprintf("after %v: ", v.now.Round(time.Millisecond))+fmt.Sprintf(format, args...))
	}
}

// killsSince counts the processes that were killed since a time, or so shortly before that its successor had not begun
// then.
func (v *invariants) killsSince(since time.Duration) time.Duration {
	count := time.Duration(0)
	for _, kill := range v.kills {
		if kill.at > since-v.bounds.takeover {
			count++
		}
	}
	return count
}

// path returns a queue and its ancestors.
func (v *invariants) path(queue string) (names []string) {
	for ; queue != ""; queue = v.shares[queue].parent {
		names = append(names, queue)
	}
	return names
}

// held returns what each queue holds, with its descendants.
func (v *invariants) held() map[string]int {
	held := map[string]int{}
	for _, pod := range v.pods {
		if pod.holds() {
			for _, queue := range v.path(pod.queue) {
				held[queue] += pod.gpus
			}
		}
	}
	return held
}

func (v *invariants) podsOf(gang string) (pods []*podFact) {
	for _, pod := range v.pods {
		if pod.gang == gang {
			pods = append(pods, pod)
		}
	}
	return pods
}

// checkLimits is invariant 1: no queue holds more than its limit, at any revision.
func (v *invariants) checkLimits(pod *podFact) {
	held := v.held()
	for _, queue := range v.path(pod.queue) {
		v.most[queue] = max(v.most[queue], held[queue])
		if limit := v.shares[queue].limit; limit > 0 && held[queue] > limit {
			v.problem("queue %s holds %d GPUs at revision %s, its limit is %d", queue, held[queue], pod.revision, limit)
		}
	}
}

// promiseStory is when a Pod was said to start.
type promiseStory struct {
	// last is what it was told at last, at a time of day.
	last *v1.StartEstimate
	told time.Time
	// reasons counts the Events since then, and late is what is missing one: the text of a problem, by a time.
	reasons int
	late    string
	by      time.Duration
}

func (v *invariants) promiseOf(pod types.UID) *promiseStory {
	p := v.promises[pod]
	if p == nil {
		p = &promiseStory{}
		v.promises[pod] = p
	}
	return p
}

const (
	// promisedStep is by how much a promise may move without an Event, and promisedPart as a part of the wait. Times
	// are shown in whole minutes.
	promisedStep = time.Minute + shownMinute
	promisedPart = 0.2
	shownMinute  = time.Minute
)

// takePromise is invariant 3: what is promised is moved later noticeably only with an Event that says why. The Event
// may be observed a little later than what it is about.
func (v *invariants) takePromise(pod *podFact, wall time.Time) {
	p := v.promiseOf(pod.uid)
	next, last := pod.promise, p.last
	if next == nil || pod.node != "" || last != nil && *next == *last {
		return
	}
	if next.Reserved {
		v.found.promises++
	}
	if last != nil && last.Reserved && next.Reserved {
		later, wait := next.Latest.Sub(last.Latest.Time), last.Latest.Sub(p.told)
		if later >= promisedStep && float64(later-shownMinute) >= promisedPart*float64(wait) {
			v.found.later++
			p.late, p.by = fmt.Sprintf("a Pod of %s was to start by %s, and now by %s; no Event says why",
				pod.gang, last.Latest.UTC().Format(time.TimeOnly), next.Latest.UTC().Format(time.TimeOnly)), v.now+v.bounds.step
			if p.reasons > 0 {
				p.late = ""
			}
		}
	}
	p.last, p.told, p.reasons = next, wall, 0
}

func (v *invariants) checkPromises() {
	for _, p := range v.promises {
		if p.late != "" && (p.reasons > 0 || v.now > p.by) {
			v.reportLate(p)
		}
	}
}

func (v *invariants) checkPromisesLeft() {
	for _, uid := range slices.Sorted(maps.Keys(v.promises)) {
		if p := v.promises[uid]; p.late != "" {
			v.reportLate(p)
		}
	}
}

func (v *invariants) reportLate(p *promiseStory) {
	if p.reasons == 0 {
		v.problem("%s", p.late)
	}
	p.late = ""
}

// usageStory is the GPU time of a queue.
type usageStory struct {
	// said is what its status has said, without what it has repeated.
	said []*usedFact
	// held are the times at which its Pods, and those of its descendants, held GPUs.
	held []*holding
}

func (u *usageStory) take(next *usedFact) {
	if last := len(u.said) - 1; last < 0 || !u.said[last].asOf.Equal(next.asOf) {
		u.said = append(u.said, next)
	}
}

// holding is what a Pod holds from a time of day on.
type holding struct {
	pod         types.UID
	gpus        int
	from, until time.Time // until is zero while it holds them
	// deleted is when the Pod was deleted; zero if it was not.
	deleted time.Time
}

// charge records when a Pod holds GPUs: by what it says itself, or else by when that was observed.
func (v *invariants) charge(f *fact) {
	for _, queue := range v.path(f.pod.queue) {
		story := v.usageOf(queue)
		index := slices.IndexFunc(story.held, func(h *holding) bool { return h.pod == f.pod.uid })
		if index < 0 {
			if !f.pod.holds() {
				continue
			}
			index = len(story.held)
			story.held = append(story.held, &holding{pod: f.pod.uid, gpus: f.pod.gpus, from: timeOr(f.pod.boundAt, f.wall)})
		}
		one := story.held[index]
		if !f.pod.holds() && one.until.IsZero() {
			one.until = timeOr(f.pod.endedAt, f.wall)
		}
		if f.pod.gone {
			one.deleted = f.wall
		}
	}
}

func timeOr(at, other time.Time) time.Time {
	if at.IsZero() {
		return other
	}
	return at
}

func (v *invariants) usageOf(queue string) *usageStory {
	story := v.usage[queue]
	if story == nil {
		story = &usageStory{}
		v.usage[queue] = story
	}
	return story
}

// within returns for how long a Pod held its GPUs in a period, in GPU-seconds.
func (h *holding) within(from, until time.Time) float64 {
	begin, end := h.from, h.until
	if begin.Before(from) {
		begin = from
	}
	if end.IsZero() || end.After(until) {
		end = until
	}
	return float64(h.gpus) * max(0, end.Sub(begin).Seconds())
}

// turns reports whether a Pod gets or gives back its GPUs at about a time.
func (h *holding) turns(at time.Time) bool {
	return h.from.Sub(at).Abs() < usedTolerance || !h.until.IsZero() && h.until.Sub(at).Abs() < usedTolerance
}

const (
	// usageRounding is by how much GPU-seconds differ that were written down: GPU-hours have three decimals.
	usageRounding = 3600 * 0.0005
	// usedTolerance is by how much the times differ at which a Pod was observed to begin or to end.
	usedTolerance = 2 * time.Second
)

// checkUsage is invariant 4: GPU time never drops by more than its decay, and all of it is counted once, whichever
// process counts it. Only what a Pod has used that was deleted may be lost, since the last status before gpu-controller
// was killed.
func (v *invariants) checkUsage() {
	for _, queue := range slices.Sorted(maps.Keys(v.usage)) {
		story, last := v.usage[queue], (*usedFact)(nil)
		for _, next := range story.said {
			v.found.statuses++
			if last == nil || !v.drops(last, next) {
				v.compareUsed(story, last, next)
			}
			last = next
		}
	}
}

// drops reports whether GPU time drops by more than its decay.
func (v *invariants) drops(last, next *usedFact) bool {
	passed := next.asOf.Sub(last.asOf)
	part := math.Exp2(-passed.Seconds() / next.halfLife.Seconds())
	switch {
	case passed < 0:
		v.problem("queue %s has counted until %v, and then until %v", next.queue, last.asOf, next.asOf)
	case next.total < last.total-usageRounding:
		v.problem("queue %s had used %.0f GPU-seconds, and then %.0f", next.queue, last.total, next.total)
	case next.decayed < last.decayed*part-1:
		v.problem("queue %s had used %.0f GPU-seconds with decay, and %v later %.0f", next.queue, last.decayed, passed, next.decayed)
	default:
		return false
	}
	return true
}

// compareUsed compares GPU time with what the Pods held since the last status.
func (v *invariants) compareUsed(story *usageStory, last, next *usedFact) {
	if last == nil {
		last = &usedFact{}
	}
	sum, lost, slack := 0.0, 0.0, 2*usageRounding
	killed := v.killedBetween(last.asOf, next.asOf)
	for _, one := range story.held {
		used := one.within(last.asOf, next.asOf)
		sum += used
		if used > 0 && !one.deleted.IsZero() || one.turns(last.asOf) || one.turns(next.asOf) {
			slack += float64(one.gpus) * usedTolerance.Seconds()
		}
		if killed && !one.deleted.IsZero() && one.deleted.Before(next.asOf.Add(usedTolerance)) {
			lost += used
		}
	}
	counted := next.total - last.total
	if counted > sum+slack || counted < sum-lost-slack {
		v.problem("queue %s has counted %.0f GPU-seconds between %s and %s; its Pods held %.0f, of which %.0f may be lost",
			next.queue, counted, last.asOf.UTC().Format(time.TimeOnly), next.asOf.UTC().Format(time.TimeOnly), sum, lost)
	}
}

// killedBetween reports whether gpu-controller was killed between two times of day.
func (v *invariants) killedBetween(since, until time.Time) bool {
	return slices.ContainsFunc(v.kills, func(kill *fact) bool {
		return kill.killed == gpuController && kill.wall.After(since) && kill.wall.Before(until.Add(usedTolerance))
	})
}

// gangStory is what became of a task.
type gangStory struct {
	task *taskFact
	// submitted is when its task was first seen, and started when enough of its Pods had nodes for the first time; 0
	// for not yet.
	submitted, started time.Duration
	// freely is since when nothing had hindered it, when it started.
	freely time.Duration
	// starts is how often it has started; whole is true while it runs.
	starts int
	whole  bool
	// owedSince is since when it waits for what its queue is guaranteed. It means something only if isOwed.
	owedSince time.Duration
	isOwed    bool
}

func (v *invariants) gangOf(name string) *gangStory {
	g := v.gangs[name]
	if g == nil {
		g = &gangStory{submitted: v.now}
		v.gangs[name] = g
	}
	return g
}

// seen takes note of the Pods that a gang has now.
func (g *gangStory) seen(pods []*podFact, at, hindered time.Duration) {
	holding, size := 0, 1
	for _, pod := range pods {
		size = pod.size
		if pod.holds() {
			holding++
		}
	}
	whole := holding >= size
	if whole && !g.whole {
		g.starts++
		if g.started == 0 {
			g.started, g.freely = at, max(g.submitted, hindered)
		}
	}
	g.whole = whole
}

func (v *invariants) takeTask(task *taskFact) {
	v.gangOf(task.name).task = task
}

// checkStarts is invariant 5: everything starts that is not deleted, and gangs of all GPUs while others come.
func (v *invariants) checkStarts() {
	for _, name := range slices.Sorted(maps.Keys(v.gangs)) {
		g := v.gangs[name]
		switch {
		case g.task == nil || g.task.gone || g.task.suspended:
		case g.started == 0 || !g.task.over:
			v.problem("GPUTask %s in queue %s has not ended; it has started %d times", name, g.task.queue, g.starts)
		default:
			v.checkWait(name, g)
		}
	}
}

// checkWait checks how long a task has waited for its first start.
func (v *invariants) checkWait(name string, g *gangStory) {
	if last, ended := v.marks[nothingComes]; ended && g.started > last {
		if g.task.queue == v.whole {
			v.problem("GPUTask %s, which needs all GPUs, has started only when no other came any more", name)
		}
		v.checkWaitSince(name, g, max(last, g.submitted), v.bounds.drain)
	}
	if calm, reached := v.marks[nothingIsOwed]; reached && g.started > calm && g.task.queue == v.whole {
		since := max(calm, g.freely)
		v.found.whole = max(v.found.whole, g.started-since)
		v.checkWaitSince(name, g, since, v.bounds.whole())
	}
}

func (v *invariants) checkWaitSince(name string, g *gangStory, since, most time.Duration) {
	most += v.killsSince(since) * v.bounds.takeover
	if wait := g.started - since; wait > most {
		v.problem("GPUTask %s in queue %s has waited for %v; at most %v is due", name, g.task.queue, wait, most)
	}
}

// byGang returns the Pods that have not ended, by gang.
func (v *invariants) byGang() map[string][]*podFact {
	all := map[string][]*podFact{}
	for _, pod := range v.pods {
		all[pod.gang] = append(all[pod.gang], pod)
	}
	for _, pods := range all {
		slices.SortFunc(pods, func(a, b *podFact) int { return cmp.Compare(a.uid, b.uid) })
	}
	return all
}
