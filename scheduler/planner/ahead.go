// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

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
	"falldio.github.io/gpu-controller/scheduler/mirror"
	"falldio.github.io/gpu-controller/scheduler/queues"
)

const (
	// aheadPeriod is how often the reservations are revised while the cluster changes, and
	// aheadShare bounds the part of the time that this takes.
	aheadPeriod = time.Second
	aheadShare  = 20
	// vainPeriod is how long a gang is left out for which no time was found, unless a node changes.
	vainPeriod = 30 * time.Second
)

// ahead are the places that the first waiting gangs will get, and when. Meanwhile others may use
// them if they end in time. There are none without GPUQueues.
type ahead struct {
	mu           sync.Mutex
	reservations []backfill.Reservation
	// version counts the changes of the reservations.
	version uint64
	// withheld is what must stay free on the nodes, besides cards, for Pods without GPUs.
	withheld map[string]mirror.Withheld
	// dueAt is when they may be revised again, and seen is what they were made for.
	dueAt time.Time
	seen  aheadBasis
	// vainUntil is until when gangs are left out for which no time was found.
	vainUntil map[string]time.Time
}

// of returns a gang's reservation.
func (a *ahead) of(group string) (reservation backfill.Reservation, reserved bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	index := slices.IndexFunc(a.reservations, func(r backfill.Reservation) bool { return r.Key == group })
	if index < 0 {
		return backfill.Reservation{}, false
	}
	return a.reservations[index], true
}

// before returns the reservations that stand in the way of a gang, with a key that is equal as long as they are the
// same: of a gang with a reservation, those that come before its own. Those after it were made on the assumption that
// it has its place then, and move if it starts late.
func (a *ahead) before(group string) (list []backfill.Reservation, key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list = a.reservations
	if own := slices.IndexFunc(list, func(r backfill.Reservation) bool { return r.Key == group }); own >= 0 {
		list = list[:own]
	}
	return list, fmt.Sprintf("%d %d", a.version, len(list))
}

// drop ends a gang's reservation: it has got its place.
func (a *ahead) drop(group string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := len(a.reservations)
	a.reservations = slices.DeleteFunc(slices.Clone(a.reservations), func(r backfill.Reservation) bool { return r.Key == group })
	if len(a.reservations) < before {
		a.version++
	}
}

// any reports whether anything is reserved.
func (a *ahead) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.reservations) > 0
}

// on returns what reservations need of a node, besides cards.
func (a *ahead) on(node string) mirror.Withheld {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.withheld[node]
}

// aheadBasis is what reservations are made for: versions of the cluster and of the line.
type aheadBasis struct{ cluster, line uint64 }

// due reports whether the reservations are to be revised. It is not asked again before long if they are.
func (a *ahead) due(now time.Time, version aheadBasis) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.dueAt) || a.seen == version && now.Before(a.dueAt.Add(vainPeriod)) {
		return false
	}
	a.dueAt, a.seen = now.Add(aheadPeriod), version
	return true
}

// lookAhead revises the reservations if it is time to. It is for scheduling cycles.
func (p *Planner) lookAhead() {
	state, now := p.queueState(), p.clock.Now()
	if state == nil {
		p.ahead.clear()
		return
	}
	if !p.ahead.due(now, aheadBasis{cluster: p.mirror.Version(), line: p.line.version()}) {
		return
	}
	waiting, leaders := p.headOfLine(now)
	p.ahead.mu.Lock()
	before := p.ahead.reservations
	p.ahead.mu.Unlock()
	in := &backfill.Input{Waiting: waiting, Now: now}
	var reservations []backfill.Reservation
	var changes []backfill.Change
	withheld := map[string]mirror.Withheld{}
	p.mirror.With(func(cluster *placement.Cluster) {
		in.Cluster, in.Running = cluster, p.runningJobs(state, now)
		reservations, changes = backfill.Revise(in, before)
		for _, shadow := range backfill.Shadows(cluster, reservations, now, 0) {
			withheld[shadow.Node] = withheld[shadow.Node].Plus(mirror.Withheld{CPU: shadow.CPU, Memory: shadow.Memory, Others: shadow.Others})
		}
	})
	p.ahead.set(reservations, withheld, now, p.clock.Since(now))
	// Whose time has come must not wait for another attempt, while others wait beside its reservation.
	p.registry.Hurry(startable(reservations, now), p.clock.Now())
	p.reportPostponed(reservations, changes, leaders, now)
}

// startable returns the gangs whose reserved places are free now.
func startable(reservations []backfill.Reservation, now time.Time) (keys []string) {
	for i := range reservations {
		if reservations[i].StartsBy(now) {
			keys = append(keys, reservations[i].Key)
		}
	}
	return keys
}

func (a *ahead) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.reservations) > 0 {
		a.reservations, a.withheld = nil, nil
		a.version++
	}
}

// set takes over revised reservations. Gangs without a time are left out for a while.
func (a *ahead) set(reservations []backfill.Reservation, withheld map[string]mirror.Withheld, now time.Time, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.vainUntil == nil {
		a.vainUntil = map[string]time.Time{}
	}
	maps.DeleteFunc(a.vainUntil, func(_ string, until time.Time) bool { return now.After(until) })
	var found []backfill.Reservation
	for i := range reservations {
		if reservations[i].Plan == nil {
			a.vainUntil[reservations[i].Key] = now.Add(vainPeriod)
		} else {
			found = append(found, reservations[i])
		}
	}
	if !slices.EqualFunc(found, a.reservations, sameReservation) {
		a.version++
	}
	a.reservations, a.withheld = found, withheld
	a.dueAt = now.Add(max(aheadPeriod, aheadShare*took))
}

func sameReservation(a, b backfill.Reservation) bool {
	return a.Key == b.Key && a.From.Equal(b.From) && a.Until.Equal(b.Until) && slices.EqualFunc(a.Plan.Members, b.Plan.Members, samePlace)
}

func samePlace(a, b placement.Member) bool {
	return a.Role == b.Role && a.Node == b.Node && slices.Equal(a.GPUs, b.GPUs)
}

// hope has times looked for again for all gangs: a node has changed.
func (a *ahead) hope() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.vainUntil)
}

func (a *ahead) isVain(group string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now.Before(a.vainUntil[group])
}

// headOfLine returns the gangs that get reservations: the first that have found no place and may
// start as far as their queues are concerned; and their leaders. Those that have reservations
// already keep them when others come before them, unless these become too many. Those come before all others
// for which Pods leave: their nodes are kept from the others until they have started.
func (p *Planner) headOfLine(now time.Time) (list []backfill.Waiting, leaders map[string]*corev1.Pod) {
	leaders = map[string]*corev1.Pod{}
	for _, entry := range withFirst(p.line.first(), p.claims.groups()) {
		_, reserved := p.ahead.of(entry.Key)
		if len(list) == 2*p.args.Reservations || len(list) >= p.args.Reservations && !reserved && !p.ahead.any() {
			break
		}
		if !entry.Tried || p.ahead.isVain(entry.Key, now) || len(list) >= p.args.Reservations && !reserved {
			continue
		}
		attempt := p.registry.Look(entry.Leader.UID)
		if attempt == nil || attempt.Err != nil {
			continue
		}
		gang, err := p.gangLater(attempt)
		if err != nil || p.admit(attempt, gang).waits != "" {
			continue
		}
		if gang.Required {
			gang.Within = gang.near
		}
		list = append(list, backfill.Waiting{Key: entry.Key, Gang: &gang.Gang, Bound: cmp.Or(entry.runtime.Longest(), assumedRuntime)})
		leaders[entry.Key] = entry.Leader
	}
	return list, leaders
}

// withFirst returns entries with those of some groups before all others.
func withFirst(entries []inLine, groups map[string]bool) []inLine {
	if len(groups) == 0 {
		return entries
	}
	first, others := make([]inLine, 0, len(entries)), make([]inLine, 0, len(entries))
	for i := range entries {
		if groups[entries[i].Key] {
			first = append(first, entries[i])
		} else {
			others = append(others, entries[i])
		}
	}
	return append(first, others...)
}

// runningJobs returns what holds GPUs, and when it is expected to end, for use within mirror.With.
func (p *Planner) runningJobs(state *queues.State, now time.Time) []backfill.Running {
	var jobs []backfill.Running
	index := map[string]int{}
	for _, holding := range p.mirror.HoldingPods() {
		ends := p.endOf(state, holding.Pod, now)
		if holding.Pod.DeletionTimestamp != nil {
			ends = now.Add(backfill.MinimumRemaining)
		}
		key := jobOf(p.registry.GangOf(types.UID(holding.Name)), holding.Pod)
		at, known := index[key]
		if !known {
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
	return jobs
}

// jobOf names the gang of a Pod, or the Pod itself: "team-a/train".
func jobOf(gang string, pod *corev1.Pod) string {
	return cmp.Or(gang, pod.Namespace+"/"+pod.Name)
}

// causeFor describes why a reservation has moved to the owner of Pods of a namespace, with the job named as jobName does.
func (p *Planner) causeFor(cause *backfill.Cause, namespace string) string {
	if cause.Job == "" {
		return cause.String()
	}
	return cause.Naming(p.jobName(cause.Job, namespace, nil))
}

// clockTime formats a time for messages.
func clockTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 MST") }
