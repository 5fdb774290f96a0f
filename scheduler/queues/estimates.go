// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
	"falldio.github.io/gpu-controller/scheduler/gangs"
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
	// pod has it.
	pod *corev1.Pod
	// first is the first one that its owner was told.
	first v1.StartEstimate
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
	l.withdrawUnfounded(ctx, waiting, now)
	if len(known.written) == 0 && !slices.ContainsFunc(waiting, func(place Place) bool { return place.Tried }) {
		return // who has not been tried may start at once
	}
	demand := slices.DeleteFunc(slices.Clone(waiting), func(place Place) bool { return !l.isEstimable(&place) && place.Awaits != gangs.AwaitsQueue })
	future, held := l.Future(state, demand, now)
	l.withdrawFrom(ctx, known.forget(waiting, held, func(one *writtenEstimate) { l.started(one, now) }))
	left, withdrawals := estimatesAtOnce, estimatesAtOnce
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
			if withdrawals > 0 {
				withdrawals -= l.withdraw(ctx, &place.Waiting, now)
			}
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
	if former := l.estimates.written[place.Key].pod; former != nil && former.UID != place.Leader.UID {
		l.withdrawFrom(ctx, []*corev1.Pod{former})
	}
	l.estimates.wrote(place, next, wait, now)
	if late, broken := l.promises.tell(place.Key, place.Leader, next, now); broken {
		l.recordPostponement(&late, place.Leader)
	}
}

// withdrawUnfounded withdraws the estimates of gangs that wait for something else than room, or are not served.
func (l *Line) withdrawUnfounded(ctx context.Context, waiting []Place, now time.Time) {
	left := estimatesAtOnce
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
}

// withdraw removes the estimate of a gang, and returns how many Pods it has written: 0 if there is none.
func (l *Line) withdraw(ctx context.Context, group *gangs.Waiting, now time.Time) (written int) {
	last, wrote := l.estimates.written[group.Key]
	if last.isWithdrawn() && (wrote || group.Leader.Annotations[v1.AnnotationStartEstimate] == "") {
		return 0
	}
	if !l.withdrawFrom(ctx, []*corev1.Pod{group.Leader}) {
		return 1
	}
	l.estimates.written[group.Key] = writtenEstimate{at: now}
	l.promises.forget(group.Key)
	return 1
}

// withdrawFrom removes the estimates of Pods, and reports whether it could.
func (l *Line) withdrawFrom(ctx context.Context, pods []*corev1.Pod) (done bool) {
	done = true
	for _, pod := range pods {
		if err := l.core.WriteEstimate(ctx, pod, nil); err != nil && !apierrors.IsNotFound(err) {
			l.Logger.Error(err, "The estimate of a Pod can't be withdrawn", "pod", klog.KObj(pod))
			done = false
		}
	}
	return done
}

// forget drops gangs that no longer wait. Those that hold something now have started, and show how good their estimates
// were; others were deleted or suspended, or have lost members. It returns the Pods that still have the estimates of
// these.
func (e *estimates) forget(waiting []Place, held map[string]int, started func(*writtenEstimate)) (stale []*corev1.Pod) {
	waits := make(map[string]bool, len(waiting))
	for i := range waiting {
		waits[waiting[i].Key] = true
	}
	for key, one := range e.written {
		if waits[key] {
			continue
		}
		if _, runs := held[key]; runs {
			started(&one)
		} else if one.pod != nil {
			stale = append(stale, one.pod)
		}
		delete(e.written, key)
	}
	return stale
}

// started learns from a gang that has just started, and counts how its first estimate turned out.
func (l *Line) started(one *writtenEstimate, now time.Time) {
	one.turnedOut(now, l.outcomes.add)
	if !one.isWithdrawn() {
		l.core.CountStart(startAgainst(&one.first, now))
	}
}

// turnedOut calls a function with how the estimates turned out of a gang that has just started.
func (w *writtenEstimate) turnedOut(now time.Time, outcome func(outlook.Outcome)) {
	for _, given := range w.given {
		outcome(outlook.Outcome{Age: given.age, Estimated: given.wait, Waited: now.Sub(given.at)})
	}
}

// Starts of gangs, compared with what their owners were told.
const (
	startEarly  = "early"
	startWithin = "within"
	startLate   = "late"
)

// startAgainst compares a start with an estimate, whose times are rounded.
func startAgainst(told *v1.StartEstimate, at time.Time) string {
	switch {
	case at.Before(told.Earliest.Add(-shownStep)):
		return startEarly
	case at.After(told.Latest.Add(shownStep)):
		return startLate
	default:
		return startWithin
	}
}

// isNews reports whether an estimate is to be written: the first one, that places are booked now, and then, but not too
// often, one that has moved by a good part of the wait, or a position that has, and one that is shown and wrong:
// it contradicts others, or does not say what it assumes.
func (e *estimates) isNews(group string, next *v1.StartEstimate, wrong bool, now time.Time) bool {
	last, written := e.written[group]
	switch {
	case !written || next.Reserved && !last.Reserved && !last.isWithdrawn():
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
		if known == 0 {
			last.first = *next
		}
		last.given = append(last.given, givenEstimate{at: now, age: age, wait: wait})
	}
	last.StartEstimate, last.at, last.pod = *next, now, place.Leader
	e.written[place.Key] = last
}
