// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

const (
	// estimatePeriod is how often it is estimated when waiting gangs start, and estimateShare
	// bounds the part of the time that this takes.
	estimatePeriod = 5 * time.Second
	estimateShare  = 50
	// The future is played mostDraws times, or fewer if many gangs wait: so often that drawnStarts starts
	// are drawn, but at least fewestDraws times.
	mostDraws, fewestDraws = 15, 5
	drawnStarts            = 50_000
	// rewritePeriod is how often an estimate is written at most for a gang, and rewriteShare by which
	// part of the wait it has to have moved.
	rewritePeriod = time.Minute
	rewriteShare  = 0.2
	// estimatesAtOnce is how many estimates are written at a time: those of the first gangs first.
	estimatesAtOnce = 50
	// shownStep is what times are rounded to.
	shownStep = time.Minute
)

// estimates are when waiting gangs were said to start. They belong to the goroutine of Estimate.
type estimates struct {
	written map[string]writtenEstimate
}

// writtenEstimate is the last one that was written of a gang; without times, that there is none.
type writtenEstimate struct {
	v1.StartEstimate
	at time.Time
	// given are the first estimates of each age, by which their calibration is learned.
	given []givenEstimate
}

func (w *writtenEstimate) isWithdrawn() bool { return w.Likely.IsZero() }

// givenEstimate is an estimate before it was adjusted.
type givenEstimate struct {
	at   time.Time
	age  int
	wait time.Duration
}

// Estimate tells the owners of waiting gangs when these will start, as long as mayAct, until ctx ends.
func (l *Line) Estimate(ctx context.Context, mayAct func() bool) {
	for pause := estimatePeriod; ; {
		select {
		case <-ctx.Done():
			return
		case <-l.Clock.After(pause):
		}
		began := l.Clock.Now()
		if mayAct() {
			l.EstimateStarts(ctx, l.State())
		}
		pause = max(estimatePeriod, estimateShare*l.Clock.Since(began))
	}
}

// EstimateStarts estimates when the waiting gangs start, and writes what has changed noticeably. It is for the
// goroutine of Estimate.
func (l *Line) EstimateStarts(ctx context.Context, state *State) {
	known := &l.estimates
	now, waiting := l.Clock.Now(), l.order.first()
	left := l.withdrawUnfounded(ctx, waiting, now)
	if len(known.written) == 0 && !slices.ContainsFunc(waiting, func(place Place) bool { return place.Tried }) {
		return // who has not been tried may start at once
	}
	demand := slices.DeleteFunc(slices.Clone(waiting), func(place Place) bool { return !l.isEstimable(&place) && place.Awaits != gangs.AwaitsQueue })
	future, held := l.Future(state, demand, now)
	known.forget(waiting, held, now, l.outcomes.add)
	said, assumed := inQueues{}, assumedRuntimes(future)
	for i, estimate := range outlook.Estimates(future) {
		place := &demand[i]
		if !place.Tried || !l.isEstimable(place) {
			continue
		}
		if left <= 0 {
			return
		}
		if estimate.Likely.IsZero() {
			left -= l.withdraw(ctx, &place.Waiting, now)
			continue
		}
		next := l.described(place, l.outcomes.adjust(estimate, now.Sub(place.Since), now), held, assumed)
		said.adjust(&next)
		if known.isNews(place.Key, &next, said.contradicts(known.shown(place.Key)), now) {
			left--
			l.publish(ctx, place, &next, estimate.Likely.Sub(now), now)
		}
		said.add(known.shown(place.Key))
	}
}

// isEstimable reports whether room is all that a group needs to start, as far as is known: the simulation knows nothing
// else. If perhaps no node suits it, it needs a booking: one does.
func (l *Line) isEstimable(place *Place) bool {
	if place.Awaits != gangs.AwaitsNodes {
		return place.Awaits == gangs.AwaitsRoom
	}
	_, booked := l.ahead.of(place.Key)
	return booked
}

// publish writes an estimate that a gang, before it was adjusted, was to wait for some time.
func (l *Line) publish(ctx context.Context, place *Place, next *v1.StartEstimate, wait time.Duration, now time.Time) {
	if err := l.core.WriteEstimate(ctx, place.Leader, next); err != nil {
		l.Logger.Error(err, "When a Pod is expected to start can't be written", "pod", klog.KObj(place.Leader))
		return
	}
	l.estimates.wrote(place, next, wait, now)
	if late, broken := l.promises.tell(place.Key, place.Leader, next, now); broken {
		l.recordPostponement(&late, place.Leader)
	}
}

// withdrawUnfounded withdraws the estimates of gangs that wait for something else than room, or are not served. It
// returns how many more may be written.
func (l *Line) withdrawUnfounded(ctx context.Context, waiting []Place, now time.Time) (left int) {
	left = estimatesAtOnce
	outside := l.order.notServed()
	for i := range outside {
		if left > 0 {
			left -= l.withdraw(ctx, &outside[i], now)
		}
	}
	for i := range waiting {
		if left > 0 && !l.isEstimable(&waiting[i]) {
			left -= l.withdraw(ctx, &waiting[i].Waiting, now)
		}
	}
	return left
}

// withdraw removes the estimate of a gang, and returns how many Pods it has written: 0 if there is none.
func (l *Line) withdraw(ctx context.Context, group *gangs.Waiting, now time.Time) (written int) {
	last, wrote := l.estimates.written[group.Key]
	if last.isWithdrawn() && (wrote || group.Leader.Annotations[v1.AnnotationStartEstimate] == "") {
		return 0
	}
	if err := l.core.WriteEstimate(ctx, group.Leader, nil); err != nil {
		l.Logger.Error(err, "That it is not known when a Pod starts can't be written", "pod", klog.KObj(group.Leader))
		return 1
	}
	l.estimates.written[group.Key] = writtenEstimate{at: now}
	l.promises.forget(group.Key)
	return 1
}

// forget drops gangs that no longer wait. The waits of those that hold something now show how good the estimates
// were, which outcome is called with; others were deleted or suspended.
func (e *estimates) forget(waiting []Place, held map[string]int, now time.Time, outcome func(outlook.Outcome)) {
	waits := make(map[string]bool, len(waiting))
	for i := range waiting {
		waits[waiting[i].Key] = true
	}
	for key, one := range e.written {
		if waits[key] {
			continue
		}
		if _, runs := held[key]; runs {
			one.turnedOut(now, outcome)
		}
		delete(e.written, key)
	}
}

// turnedOut calls a function with how the estimates turned out of a gang that has just started.
func (w *writtenEstimate) turnedOut(now time.Time, outcome func(outlook.Outcome)) {
	for _, given := range w.given {
		outcome(outlook.Outcome{Age: given.age, Estimated: given.wait, Waited: now.Sub(given.at)})
	}
}

// isNews reports whether an estimate is to be written: the first one, that places are booked now, and then, but not too
// often, one that has moved by a good part of the wait, or a position that has, and one that is shown and wrong:
// it contradicts others, or does not say what it assumes.
func (e *estimates) isNews(group string, next *v1.StartEstimate, wrong bool, now time.Time) bool {
	last, written := e.written[group]
	switch {
	case !written || next.Reserved && !last.Reserved:
		return true
	case now.Sub(last.at) < rewritePeriod:
		return false
	case wrong || last.isWithdrawn() || last.Queue != next.Queue || last.Reserved != next.Reserved || saysLess(&last.StartEstimate, next):
		return true
	}
	moved := next.Likely.Sub(last.Likely.Time).Abs()
	positions := max(last.Position-next.Position, next.Position-last.Position)
	return moved >= shownStep && float64(moved) > rewriteShare*float64(last.Likely.Sub(now)) ||
		float64(positions) > rewriteShare*float64(last.Position)
}

// saysLess reports whether an estimate does not say yet what the next one says of itself.
func saysLess(last, next *v1.StartEstimate) bool {
	return next.Rough && !last.Rough || next.AssumedRuntimeSeconds > 0 && last.AssumedRuntimeSeconds == 0
}

// shown returns the estimate that a gang has; nil for none.
func (e *estimates) shown(group string) *v1.StartEstimate {
	if last, written := e.written[group]; written && !last.isWithdrawn() {
		return &last.StartEstimate
	}
	return nil
}

// wrote remembers an estimate that was written; before it was adjusted, the gang was to wait for some time.
func (e *estimates) wrote(place *Place, next *v1.StartEstimate, wait time.Duration, now time.Time) {
	last := e.written[place.Key]
	age := outlook.Age(now.Sub(place.Since))
	if known := len(last.given); known == 0 || last.given[known-1].age != age {
		last.given = append(last.given, givenEstimate{at: now, age: age, wait: wait})
	}
	last.StartEstimate, last.at = *next, now
	e.written[place.Key] = last
}

// assumedRuntimes returns how long jobs are assumed to run of which nothing is known.
func assumedRuntimes(future *outlook.Input) map[string]time.Duration {
	jobs := map[string]time.Duration{}
	for i := range future.Running {
		if job := &future.Running[i]; job.Assumed > 0 {
			jobs[job.Key] = job.Assumed
		}
	}
	for i := range future.Waiting {
		if job := &future.Waiting[i]; job.Assumed > 0 {
			jobs[job.Key] = job.Assumed
		}
	}
	return jobs
}

// described returns an estimate as it is written. A booking says by when the gang starts at the latest, and knows better
// than the estimate which work has to end.
func (l *Line) described(place *Place, estimate outlook.Estimate, held map[string]int, assumed map[string]time.Duration) v1.StartEstimate {
	booking, booked := l.ahead.of(place.Key)
	if booked && booking.From.After(estimate.Likely) {
		estimate.Latest = booking.From
		if place.Awaits == gangs.AwaitsNodes { // the simulation may have it on nodes that refuse it
			estimate.Likely = booking.From
		}
	}
	if behind := l.runningBehind(place.Key, held); behind != "" {
		estimate.Behind = behind
		if assumed[behind] > 0 {
			estimate.Assumed = behind
		}
	}
	result := v1.StartEstimate{
		Earliest: shown(estimate.Earliest), Likely: shown(estimate.Likely), Latest: shown(estimate.Latest),
		Queue: place.queue, Position: int32(min(place.position+1, 1<<30)), //nolint:gosec // bounded
		Rough: estimate.Rough, Backfill: estimate.Passes, Reserved: booked,
	}
	namespace := place.Leader.Namespace
	if estimate.Behind != "" {
		result.Behind = l.jobName(estimate.Behind, namespace, held)
	}
	if estimate.Assumed != "" {
		result.AssumedRuntimeSeconds = int64(cmp.Or(assumed[estimate.Assumed], assumedRuntime).Seconds())
		if estimate.Assumed != likelyToCome { // nobody knows that
			result.AssumedFor = l.jobName(estimate.Assumed, namespace, held)
		}
	}
	return result
}

// mostBehind bounds how many bookings are followed that wait for one another.
const mostBehind = 100

// runningBehind returns the running job that the booking of a group waits for: if that is behind others that wait, what
// the last of these waits for. It is empty if there is none.
func (l *Line) runningBehind(group string, held map[string]int) string {
	for range mostBehind {
		booking, booked := l.ahead.of(group)
		if _, runs := held[booking.Behind]; runs || !booked {
			return booking.Behind
		}
		group = booking.Behind
	}
	return ""
}

func shown(at time.Time) metav1.Time { return metav1.NewTime(at.UTC().Round(shownStep)) }

// Future returns what is known of the time to come, and what the running jobs hold, in percent of a GPU.
func (l *Line) Future(state *State, waiting []Place, now time.Time) (in *outlook.Input, held map[string]int) {
	held = map[string]int{}
	in = &outlook.Input{
		Now: now, Booked: l.Args.Reservations, Draws: min(max(drawnStarts/max(len(waiting), 1), fewestDraws), mostDraws),
		Seed: uint64(now.Unix()), //nolint:gosec // after 1970
	}
	random := rand.New(rand.NewPCG(in.Seed, 0)) //nolint:gosec // simulation
	var nodes []mirror.GPUNode
	var holdings []mirror.Holding
	l.Mirror.With(func(*placement.Cluster) { nodes, holdings = l.Mirror.GPUNodes(), l.Mirror.HoldingPods() })
	index := map[nodePart]int{}
	for i, node := range nodes {
		index[nodePart{node.Name, node.Slices}] = i
		// Only who asks for a profile gets its slices, so that it is like a model.
		in.Nodes = append(in.Nodes, outlook.Node{Model: cmp.Or(node.Slices, node.Model), Percent: node.Percent, Apart: node.Slices != ""})
	}
	in.Running = l.runningUntil(state, holdings, index, random, now)
	for i := range waiting {
		in.Waiting = append(in.Waiting, l.waitingFor(state, &waiting[i], random))
	}
	in.Scenarios = l.scenarios(state, random, now)
	for i := range in.Running {
		for _, hold := range in.Running[i].Holds {
			held[in.Running[i].Key] += hold.Percent
		}
	}
	return in, held
}

// nodePart is a node's GPUs, or its MIG slices that a resource counts.
type nodePart struct{ node, slices string }

// runningUntil returns what runs, given what Pods hold, for how long it may go on; index has the positions of the
// nodes.
func (l *Line) runningUntil(state *State, holdings []mirror.Holding, index map[nodePart]int, random *rand.Rand, now time.Time) []outlook.Running {
	assigned := RunningPods{State: state}
	var jobs []outlook.Running
	known := map[string]int{}
	for i := range holdings {
		holding := &holdings[i]
		node, usable := index[nodePart{holding.Node, holding.Slices}]
		if !usable {
			continue
		}
		key := jobOf(l.Registry.GangOf(types.UID(holding.Name)), holding.Pod)
		at, found := known[key]
		if !found {
			at = len(jobs)
			known[key] = at
			jobs = append(jobs, outlook.Running{Key: key, Duration: l.book.drawn(state, assigned.QueueOf(holding.Pod), holding.Pod, startOf(holding.Pod, now), random, now)})
		}
		jobs[at].Holds = append(jobs[at].Holds, outlook.Hold{Node: node, Percent: holding.Percent})
	}
	return jobs
}

func (l *Line) waitingFor(state *State, place *Place, random *rand.Rand) outlook.Waiting {
	now := l.Clock.Now()
	job := outlook.Waiting{Key: place.Key, Queue: place.queue, Turn: place.turn, Duration: l.book.drawn(state, place.queue, place.Leader, now, random, now)}
	if attempt := l.Registry.Look(place.Leader.UID); attempt != nil {
		job.Needs = needsOf(attempt)
	}
	return job
}

// needsOf returns what a gang needs to start.
func needsOf(attempt *gangs.Attempt) []outlook.Need {
	var needs []outlook.Need
	for _, m := range attempt.Waiting[:attempt.Need] {
		need := outlook.Need{Members: 1, Percent: m.Shape.Percent(), Models: m.Shape.Models}
		if slices := snapshot.SliceResource(&m.Shape); slices != "" {
			need.Percent, need.Models = snapshot.GPUPercent(&m.Shape), []string{slices}
		}
		if last := len(needs) - 1; last >= 0 && sameNeed(&needs[last], &need) {
			needs[last].Members++
		} else {
			needs = append(needs, need)
		}
	}
	return needs
}

func sameNeed(a, b *outlook.Need) bool {
	return a.Percent == b.Percent && len(a.Models) == len(b.Models) && (len(a.Models) == 0 || a.Models[0] == b.Models[0])
}

// drawn returns for how long a Pod runs that has begun at a time. The draws are made now: what is known of other
// Pods may change while they are used.
func (b *queueBook) drawn(state *State, queue string, pod *corev1.Pod, began time.Time, random *rand.Rand, now time.Time) outlook.Duration {
	elapsed := now.Sub(began)
	b.mu.Lock()
	defer b.mu.Unlock()
	estimate := b.estimate(state, queue, pod)
	return durationOf(&estimate, elapsed, random)
}

// durationOf returns for how long something runs that has run for some time.
func durationOf(estimate *runtimes.Estimate, elapsed time.Duration, random *rand.Rand) outlook.Duration {
	if estimate.Unknown() {
		assumed := runtimes.Extended(assumedRuntime, elapsed, assumedRuntime)
		return outlook.Duration{Draw: func(*rand.Rand) time.Duration { return assumed - elapsed }, Assumed: assumed}
	}
	return outlook.Duration{
		Draw: prepared(estimate, elapsed, random), Bound: boundAfter(estimate, elapsed), Rough: estimate.Rough() || estimate.Outlived(elapsed),
	}
}

func prepared(estimate *runtimes.Estimate, elapsed time.Duration, random *rand.Rand) func(*rand.Rand) time.Duration {
	var list [mostDraws]time.Duration
	for i := range list {
		list[i] = max(estimate.Draw(random, elapsed)-elapsed, backfill.MinimumRemaining)
	}
	next := 0
	return func(*rand.Rand) time.Duration {
		next = (next + 1) % len(list)
		return list[next]
	}
}

func boundAfter(estimate *runtimes.Estimate, elapsed time.Duration) time.Duration {
	_, longest := estimate.Remaining(elapsed)
	return longest
}

// gpusOf formats how many GPUs something holds: "8 GPUs", "1 GPU", "0.5 GPUs".
func gpusOf(percent int) string {
	if percent == placement.Card {
		return "1 GPU"
	}
	return fmt.Sprintf("%g GPUs", float64(percent)/placement.Card)
}
