// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"cmp"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
)

const (
	// laterTolerance is by how much a start may be postponed without an Event, as a part of
	// the time until then, and leastLater is the least that is reported.
	laterTolerance = 0.2
	leastLater     = time.Minute
	// keepPromises is how long a promise is remembered to a gang that does not wait: it may have got a place, and lost
	// it before it was bound.
	keepPromises = time.Hour
)

// promises are the starts that the owners of waiting gangs were told: by an estimate, or by an Event since. They are
// compared with what was told, not with the booking of a moment ago: it may move in small steps, and a gang may lose
// its booking and get another one.
type promises struct {
	mu   sync.Mutex
	told map[string]promise // by gang
}

// promise is when a gang starts at the latest.
type promise struct {
	// pod is the leader, which was told, and at is when it last waited.
	pod types.UID
	at  time.Time
	// by is zero if it was told that its start is not known.
	by time.Time
	// cause is why the booking has moved later since, the last time that it has; empty for not at all.
	cause backfill.Cause
}

// tell remembers an estimate that was written. Without a booking it promises nothing. An estimate may be later than the
// booking, and so break what the gang was promised although the booking has not moved: then broken is true.
func (p *promises) tell(group string, leader *corev1.Pod, estimate *v1.StartEstimate, now time.Time) (late postponement, broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !estimate.Reserved {
		delete(p.told, group)
		return postponement{}, false
	}
	latest := estimate.Latest.Time
	if told, known := p.toldTo(group, leader); known && !told.by.IsZero() && noticeablyLater(told.by, latest, now) {
		late, broken = postponement{group: group, was: told.by, is: latest, cause: cmp.Or(told.cause, backfill.Cause{Kind: backfill.LikelyLater})}, true
	}
	p.put(group, promise{pod: leader.UID, at: now, by: latest})
	return late, broken
}

// forget forgets what a gang was told: that does not hold any more, and it was told so.
func (p *promises) forget(group string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.told, group)
}

// put requires the lock.
func (p *promises) put(group string, told promise) {
	if p.told == nil {
		p.told = map[string]promise{}
	}
	p.told[group] = told
}

// postponement is what a gang is told when its start is postponed.
type postponement struct {
	group string
	// was is when it was to start, and is when it is expected to start now; zero if that is not known.
	was, is time.Time
	cause   backfill.Cause
}

// String says what has changed, without the cause.
func (p *postponement) String() string {
	if p.is.IsZero() {
		return "Its start is no longer known"
	}
	return fmt.Sprintf("It is expected to start at %s instead of %s", clockTime(p.is), clockTime(p.was))
}

// action returns what was done, for machines. It differs for each new start: the recorder takes Events about an
// unchanged Pod for one series if their reason and action are the same, and shows the text of the first one only.
func (p *postponement) action() string {
	if p.is.IsZero() {
		return "PostponeIndefinitely"
	}
	return "PostponeTo" + p.is.UTC().Format(time.RFC3339)
}

// broken returns the promises that do not hold any more, and takes them for reported. changes are how the bookings
// have moved now, and leaders who was told.
func (p *promises) broken(bookings []backfill.Booking, changes []backfill.Change, leaders map[string]*corev1.Pod, now time.Time) (list []postponement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.told, func(_ string, told promise) bool { return now.Sub(told.at) > keepPromises })
	causes := make(map[string]backfill.Cause, len(changes))
	for i := range changes {
		if changes[i].Later() {
			causes[changes[i].Key] = changes[i].Cause
		}
	}
	for i := range bookings {
		r := &bookings[i]
		leader := leaders[r.Key]
		if leader == nil {
			continue
		}
		told, known := p.toldTo(r.Key, leader)
		if !known {
			continue
		}
		told.at, told.cause = now, cmp.Or(causes[r.Key], told.cause)
		if told.brokenBy(r, now) {
			list = append(list, postponement{group: r.Key, was: told.by, is: r.From, cause: cmp.Or(told.cause, backfill.Cause{Kind: backfill.Passed})})
			told.by, told.cause = r.From, backfill.Cause{}
		}
		p.put(r.Key, told)
	}
	return list
}

// toldTo returns what a gang was told: by this process, or by a former one in the annotation of the leader. It requires
// the lock.
func (p *promises) toldTo(group string, leader *corev1.Pod) (told promise, known bool) {
	if told, known = p.told[group]; known && told.pod == leader.UID {
		return told, true
	}
	estimate := gputask.StartEstimateOf(leader)
	if estimate == nil || !estimate.Reserved {
		return promise{}, false
	}
	return promise{pod: leader.UID, by: estimate.Latest.Time, cause: backfill.Cause{Kind: backfill.Restarted}}, true
}

// brokenBy reports whether a gang starts noticeably later than promised. If its place is free now, it starts as soon as
// it is its turn.
func (p *promise) brokenBy(r *backfill.Booking, now time.Time) bool {
	switch {
	case p.by.IsZero() || r.StartsBy(now):
		return false
	case r.Plan == nil:
		return true
	default:
		return noticeablyLater(p.by, r.From, now)
	}
}

func noticeablyLater(was, is, now time.Time) bool {
	later := is.Sub(was)
	return later >= leastLater && float64(later) >= laterTolerance*float64(was.Sub(now))
}

// reportPostponed reports to gangs whose start is expected noticeably later than they were told, and why.
func (l *Line) reportPostponed(bookings []backfill.Booking, changes []backfill.Change, leaders map[string]*corev1.Pod, now time.Time) {
	for _, one := range l.promises.broken(bookings, changes, leaders, now) {
		l.recordPostponement(&one, leaders[one.group])
	}
}

// recordPostponement tells the owner of a gang, in an Event of the leader.
func (l *Line) recordPostponement(one *postponement, leader *corev1.Pod) {
	l.core.ReportPostponed(leader, one.action(), fmt.Sprintf("%s: %s", one, l.causeFor(&one.cause, leader.Namespace)))
}
