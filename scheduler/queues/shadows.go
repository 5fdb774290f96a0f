// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// Shadows returns what must stay free for others while a place is looked for: what is booked
// from a time on at which the gang may still run. It is nil if nothing is booked.
func (l *Line) Shadows(attempt *gangs.Attempt) func(*placement.Cluster) []placement.Pod {
	others, key := l.ahead.before(attempt.Group.Key, l.ownerOf(attempt))
	if len(others) == 0 {
		return nil
	}
	bound, now := l.boundOf(attempt), l.Clock.Now()
	key = l.windowKey(key, others, now, bound)
	return func(cluster *placement.Cluster) []placement.Pod {
		return l.shadows.of(cluster, key, others, now, bound).pods
	}
}

// windowKey returns a key that is equal as long as the same of some bookings with a key, on the same nodes, is in the
// way of a gang that starts now: which ones have come, come before it ends, or do not matter.
func (l *Line) windowKey(key string, others []backfill.Booking, now time.Time, bound time.Duration) string {
	parts := make([]byte, len(others))
	for i := range others {
		r := &others[i]
		switch {
		case !r.Until.IsZero() && !r.Until.After(now), bound > 0 && !r.From.Before(now.Add(bound)):
			parts[i] = '-'
		case r.StartsBy(now):
			parts[i] = 'n'
		default:
			parts[i] = 'l'
		}
	}
	return fmt.Sprintf("%s %d %s", key, l.Mirror.NodesVersion(), parts)
}

// castShadows are shadows as they were computed last, by a key: there may be hundreds of attempts a second beside the
// same bookings. They belong to whoever has the mirror locked.
type castShadows struct{ known map[string]*castShadow }

// castShadow is what must stay free.
type castShadow struct {
	pods []placement.Pod
	// rooms are what of that is not cards, by node.
	rooms map[string]mirror.Withheld
	// leaving are the Pods that were to leave before the bookings begin.
	leaving []string
}

// mostShadows is of how many keys shadows are kept.
const mostShadows = 64

// of returns the shadow of bookings with a key, as backfill.Shadows does.
func (s *castShadows) of(cluster *placement.Cluster, key string, others []backfill.Booking, now time.Time, bound time.Duration) *castShadow {
	gone := func(pod string) bool { return cluster.Look(pod) == nil }
	if one := s.known[key]; one != nil && !slices.ContainsFunc(one.leaving, gone) {
		return one
	}
	if s.known == nil || len(s.known) >= mostShadows {
		s.known = map[string]*castShadow{}
	}
	one := &castShadow{pods: backfill.Shadows(cluster, others, now, bound), rooms: map[string]mirror.Withheld{}}
	for _, pod := range one.pods {
		one.rooms[pod.Node] = one.rooms[pod.Node].Plus(mirror.Withheld{CPU: pod.CPU, Memory: pod.Memory, Others: pod.Others})
	}
	for i := range others {
		for _, leaver := range others[i].Leaving {
			if !gone(leaver.Pod) {
				one.leaving = append(one.leaving, leaver.Pod)
			}
		}
	}
	s.known[key] = one
	return one
}

// ShadowKey returns a key for Shadows.
func (l *Line) ShadowKey(attempt *gangs.Attempt) string {
	others, key := l.ahead.before(attempt.Group.Key, l.ownerOf(attempt))
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d", key, l.boundOf(attempt))
}

// boundOf returns for how long a gang runs at most, as far as is known; 0 if it is not.
func (l *Line) boundOf(attempt *gangs.Attempt) time.Duration {
	if place, waits := l.order.of(attempt.Group.Key); waits {
		return place.runtime.Longest()
	}
	return l.Runtime(l.State(), attempt.Waiting[0].Pod()).Longest()
}

// ownerOf returns what decides whether a gang comes before others, also if it is not in the line yet.
func (l *Line) ownerOf(attempt *gangs.Attempt) owner {
	if place, waits := l.order.of(attempt.Group.Key); waits {
		return ownerOf(&place)
	}
	return owner{queue: l.State().QueueOf(attempt.Waiting[0].Pod()).Queue, rank: gangs.Rank{Priority: attempt.Priority}}
}

// Rooms returns what the bookings of gangs that come before a Pod without GPUs need of the nodes, besides cards: those
// of a higher priority and, with the same, of a greater age. The map must not be changed.
func (l *Line) Rooms(pod gangs.Rank) (rooms map[string]mirror.Withheld) {
	others, key := l.ahead.beforePod(pod)
	if len(others) == 0 {
		return nil
	}
	now := l.Clock.Now()
	key = l.windowKey(key, others, now, 0)
	l.Mirror.With(func(cluster *placement.Cluster) { rooms = l.shadows.of(cluster, key, others, now, 0).rooms })
	return rooms
}

// beforePod returns the bookings of gangs that come before a Pod without GPUs, with a key that is equal as long as they
// are the same: those of the first gangs by rank, so that their number tells which ones.
func (a *ahead) beforePod(pod gangs.Rank) (list []backfill.Booking, key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.bookings {
		if a.owners[a.bookings[i].Key].rank.Compare(pod) <= 0 {
			list = append(list, a.bookings[i])
		}
	}
	return list, fmt.Sprintf("%d by rank %d", a.version, len(list))
}

// jobName names a job to the owner of Pods of a namespace, with the GPUs that it has or waits for; held is what the
// running ones have, in percent of one. What runs in other namespaces is not to be seen there.
func (l *Line) jobName(job, namespace string, held map[string]int) string {
	percent, runs := held[job]
	if place, waits := l.order.of(job); waits && !runs {
		job, percent = jobOf(l.Registry.GangOf(place.Leader.UID), place.Leader), place.Percent
	}
	of, name, _ := strings.Cut(job, "/")
	if of != namespace {
		name = "work of another namespace"
	}
	if percent == 0 {
		return name
	}
	return name + " (" + gpusOf(percent) + ")"
}
