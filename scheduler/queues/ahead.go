// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

const (
	// aheadPeriod is how often the bookings are revised while the cluster changes, and
	// aheadShare bounds the part of the time that this takes.
	aheadPeriod = time.Second
	aheadShare  = 50
	// noStartPeriod is how long a gang is left out for which no time was found, unless a node changes.
	noStartPeriod = 30 * time.Second
	// maxRounds is how often the bookings are revised at once if the filters refuse places.
	maxRounds = 4
)

// ahead are the places that the first waiting gangs will get, and when. Meanwhile others may use
// them if they end in time.
type ahead struct {
	mu       sync.Mutex
	bookings []backfill.Booking
	// owners are the gangs that have them, by key.
	owners map[string]owner
	// version counts the changes of the bookings.
	version uint64
	// stalls are the gangs that wait for Pods of which nobody knows when they end.
	stalls map[string]stall
	// dueAt is when they may be revised again, and seen is what they were made for.
	dueAt time.Time
	seen  aheadBasis
	// noStartUntil is until when gangs are left out that can't have a booking now.
	noStartUntil map[string]time.Time
	// refusing are the nodes that the filters refused to gangs, and agreed the places that they accepted.
	refusing map[string]refusing
	agreed   map[string]agreed
	// classes are what requests for some nodes compete for, for a version of the nodes. They belong to the scheduling
	// cycle.
	classes      map[nodeNeeds]string
	nodesVersion uint64
}

// of returns a gang's booking.
func (a *ahead) of(group string) (booking backfill.Booking, booked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	index := slices.IndexFunc(a.bookings, func(r backfill.Booking) bool { return r.Key == group })
	if index < 0 {
		return backfill.Booking{}, false
	}
	return a.bookings[index], true
}

// all returns the bookings. The slice must not be changed.
func (a *ahead) all() []backfill.Booking {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bookings
}

// before returns the bookings that stand in the way of a gang, with a key that is equal as long as they are the
// same: of a gang with a booking, those that come before its own. Those after it were made on the assumption that
// it has its place then, and move if it starts late. Nor are those in its way of gangs of its queue that have a lower
// priority: it comes before them, although it may not be in the line yet.
func (a *ahead) before(group string, of owner) (list []backfill.Booking, key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list = a.bookings
	if own := slices.IndexFunc(list, func(r backfill.Booking) bool { return r.Key == group }); own >= 0 {
		list = list[:own]
	}
	key = fmt.Sprintf("%d %d", a.version, len(list))
	later := func(r backfill.Booking) bool {
		other := a.owners[r.Key]
		return other.queue == of.queue && other.rank.Priority < of.rank.Priority
	}
	if slices.ContainsFunc(list, later) {
		list = slices.DeleteFunc(slices.Clone(list), later)
		key += fmt.Sprintf(" %s %d", of.queue, of.rank.Priority)
	}
	return list, key
}

// drop ends a gang's booking: it has got its place, or no longer waits. It reports whether there was one.
func (a *ahead) drop(group string) (had bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	index := slices.IndexFunc(a.bookings, func(r backfill.Booking) bool { return r.Key == group })
	if index < 0 {
		return false
	}
	a.bookings = slices.Delete(slices.Clone(a.bookings), index, index+1)
	a.version++
	return true
}

// any reports whether anything is booked.
func (a *ahead) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.bookings) > 0
}

// aheadBasis is what bookings are made for: versions of the cluster and of the line.
type aheadBasis struct{ cluster, line uint64 }

// due reports whether the bookings are to be revised. It is not asked again before long if they are.
func (a *ahead) due(now time.Time, version aheadBasis) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.dueAt) || a.seen == version && now.Before(a.dueAt.Add(noStartPeriod)) {
		return false
	}
	a.dueAt, a.seen = now.Add(aheadPeriod), version
	return true
}

// LookAhead revises the bookings if it is time to. It is for scheduling cycles.
func (l *Line) LookAhead() {
	now := l.Clock.Now()
	if !l.ahead.due(now, aheadBasis{cluster: l.Mirror.Version(), line: l.order.version()}) {
		return
	}
	head := l.headOfLine(now)
	before := l.ahead.all()
	bookings, changes := l.bookAhead(head, before, now)
	if l.ahead.set(bookings, head.owners, now, l.Clock.Since(now)) {
		l.Registry.Wake(l.Clock.Now()) // what was kept from others is not any more
	}
	for i := range bookings {
		if key := bookings[i].Key; !l.Registry.Waits(key) {
			l.core.EndPlaces(key) // its Pods have been deleted meanwhile
		}
	}
	// Whose time has come must not wait for another attempt, while others wait beside its booking.
	l.Registry.Hurry(startable(bookings, now), l.Clock.Now())
	l.reportPostponed(bookings, changes, head.leaders, now)
}

// bookAhead makes the bookings of the gangs that are first, given those of the last time: at places that the
// filters accept.
func (l *Line) bookAhead(head *head, before []backfill.Booking, now time.Time) (bookings []backfill.Booking, changes []backfill.Change) {
	if len(head.waiting) == 0 {
		return nil, nil
	}
	running, assumed := l.runningJobs(l.State(), now)
	in := &backfill.Input{Waiting: head.waiting, Running: running, Now: now}
	var open map[string]bool
	for again, round := true, 0; again && round < maxRounds; round++ {
		l.Mirror.With(func(cluster *placement.Cluster) {
			in.Cluster = cluster
			bookings, changes = backfill.Revise(in, before)
		})
		again, open = l.askAhead(head, bookings, before, now)
	}
	bookings = slices.DeleteFunc(bookings, func(r backfill.Booking) bool { return open[r.Key] })
	return bookings, append(changes, l.ahead.pauseStalled(bookings, running, assumed, now, config.Seconds(l.Args.ClaimSeconds))...)
}

// startable returns the gangs whose booked places are free now.
func startable(bookings []backfill.Booking, now time.Time) (keys []string) {
	for i := range bookings {
		if bookings[i].StartsBy(now) {
			keys = append(keys, bookings[i].Key)
		}
	}
	return keys
}

// set takes over revised bookings. Gangs without a time are left out for a while. It reports whether anything is
// no longer kept that was.
func (a *ahead) set(bookings []backfill.Booking, owners map[string]owner, now time.Time, took time.Duration) (ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(now)
	var found []backfill.Booking
	for i := range bookings {
		if bookings[i].Plan == nil {
			a.noStart(bookings[i].Key, now.Add(noStartPeriod))
		} else {
			found = append(found, bookings[i])
		}
	}
	if !slices.EqualFunc(found, a.bookings, func(x, y backfill.Booking) bool { return sameShadow(&x, &y, now) }) {
		a.version++
		ended = slices.ContainsFunc(a.bookings, func(was backfill.Booking) bool { return !stillKept(&was, found, now) })
	}
	a.bookings, a.owners = found, owners
	a.dueAt = now.Add(max(aheadPeriod, aheadShare*took))
	return ended
}

// sameShadow reports whether two bookings are in the way of the same jobs. That of a gang whose time has come begins
// now, whenever that is.
func sameShadow(a, b *backfill.Booking, now time.Time) bool {
	due := a.StartsBy(now) && b.StartsBy(now)
	return a.Key == b.Key && (due || a.From.Equal(b.From) && a.Until.Equal(b.Until)) && samePlaces(a, b) &&
		slices.EqualFunc(a.Leaving, b.Leaving, func(x, y backfill.Leaver) bool { return x.Pod == y.Pod })
}

// stillKept reports whether what a booking kept from others is still kept from them.
func stillKept(was *backfill.Booking, bookings []backfill.Booking, now time.Time) bool {
	index := slices.IndexFunc(bookings, func(r backfill.Booking) bool { return r.Key == was.Key })
	if index < 0 {
		return false
	}
	is := &bookings[index]
	return samePlaces(was, is) && (is.StartsBy(now) || !is.From.After(was.From))
}

func samePlaces(a, b *backfill.Booking) bool {
	return slices.EqualFunc(a.Plan.Members, b.Plan.Members, samePlace)
}

func samePlace(a, b placement.Member) bool {
	return a.Role == b.Role && a.Node == b.Node && slices.Equal(a.GPUs, b.GPUs)
}

// retryAll has times looked for again for all gangs: a node has changed, or what filters look at.
func (a *ahead) retryAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.noStartUntil)
	clear(a.refusing)
	clear(a.agreed)
}

// leaveOut has a gang left out until a time.
func (a *ahead) leaveOut(group string, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noStart(group, until)
}

// noStart requires the lock.
func (a *ahead) noStart(group string, until time.Time) {
	if a.noStartUntil == nil {
		a.noStartUntil = map[string]time.Time{}
	}
	a.noStartUntil[group] = until
}

// forget drops what is remembered of gangs for too long, and of those without bookings. It requires the lock.
func (a *ahead) forget(now time.Time) {
	maps.DeleteFunc(a.noStartUntil, func(_ string, until time.Time) bool { return now.After(until) })
	maps.DeleteFunc(a.refusing, func(_ string, one refusing) bool { return now.After(one.until) })
	maps.DeleteFunc(a.agreed, func(_ string, one agreed) bool { return now.After(one.until) })
}

// runningJobs returns what holds GPUs, and when it is expected to end. Of the assumed ones nothing is known.
func (l *Line) runningJobs(state *State, now time.Time) (jobs []backfill.Running, assumed map[string]bool) {
	var holdings []mirror.Holding
	l.Mirror.With(func(*placement.Cluster) { holdings = l.Mirror.HoldingPods() })
	assigned := RunningPods{State: state}
	assumed = map[string]bool{}
	index := map[string]int{}
	for i := range holdings {
		holding := &holdings[i]
		ends, known := l.book.endOf(state, assigned.QueueOf(holding.Pod), holding.Pod, now)
		if holding.Pod.DeletionTimestamp != nil {
			ends, known = now.Add(backfill.MinimumRemaining), true
		}
		key := jobOf(l.Registry.GangOf(types.UID(holding.Name)), holding.Pod)
		if !known {
			assumed[key] = true
		}
		at, found := index[key]
		if !found {
			at = len(jobs)
			index[key] = at
			jobs = append(jobs, backfill.Running{Key: key, Ends: ends})
		}
		jobs[at].Pods = append(jobs[at].Pods, holding.Name)
		if ends.After(jobs[at].Ends) {
			jobs[at].Ends = ends
		}
	}
	slices.SortFunc(jobs, func(a, b backfill.Running) int { return cmp.Compare(a.Key, b.Key) })
	return jobs, assumed
}

// jobOf names the gang of a Pod, or the Pod itself: "team-a/train".
func jobOf(gang string, pod *corev1.Pod) string {
	return cmp.Or(gang, pod.Namespace+"/"+pod.Name)
}

// causeFor describes why a booking has moved to the owner of Pods of a namespace, with the job named as jobName does.
func (l *Line) causeFor(cause *backfill.Cause, namespace string) string {
	if cause.Job == "" {
		return cause.String()
	}
	return cause.Naming(l.jobName(cause.Job, namespace, nil))
}

// clockTime formats a time for messages: as RFC 3339, so that programs can show it in the reader's zone.
func clockTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }
