// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/verdict"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/queues"
)

const (
	// shortestPause bounds the pause after an attempt that found no place, and longestPause
	// what an attempt counts for it.
	shortestPause = 100 * time.Millisecond
	longestPause  = 20 * time.Second
	// pauseFactor is how many times longer the pause is than an attempt that found no
	// place, so that such attempts take about a tenth of the time.
	pauseFactor = 10
)

// waitUntilCurrent requeues a Pod after a moment.
func (p *Planner) waitUntilCurrent(pod *corev1.Pod) Decision {
	if member := p.registry.Member(pod.UID); member != nil {
		now := p.clock.Now()
		soon := now.Add(shortestPause)
		p.registry.FailUntil(member.Group(), now, soon, soon)
	}
	return Decision{Waits: "the scheduler has just started and does not know yet what is running"}
}

// waitForChange has a gang wait until it changes: what it asks for is wrong.
func (p *Planner) waitForChange(attempt *gangs.Attempt, begin time.Time, wrong error) Decision {
	p.registry.FailForOther(attempt.Group, begin, begin.Add(fallbackRetry))
	p.decisions.record(&search{attempt: attempt, begin: begin}, journal.Invalid, wrong.Error(), nil)
	return Decision{Wrong: p.say(attempt.Group, v1.WaitsForChange, wrong.Error())}
}

// waitForClaims has a gang tried again when a claim has changed, and after a while.
func (p *Planner) waitForClaims(attempt *gangs.Attempt, waits string) Decision {
	now := p.clock.Now()
	p.registry.FailForOther(attempt.Group, now, now.Add(shortestPause))
	p.devices.Await(attempt)
	waits = p.say(attempt.Group, v1.WaitsForClaims, waits)
	p.decisions.record(&search{attempt: attempt, begin: now}, journal.Waits, waits, nil)
	return Decision{Waits: waits}
}

// waitInQueue is fail for a gang that its queue does not let start.
func (p *Planner) waitInQueue(attempt *gangs.Attempt, admission queues.Admission) Decision {
	now := p.clock.Now()
	p.filters.FoundNone(attempt.Group.Key, nil, nil) // no node was asked
	p.registry.FailAttempt(attempt.Group, gangs.Failure{Began: now, Ended: now, RetryBy: now.Add(fallbackRetry), Awaits: gangs.AwaitsQueue})
	cause := v1.WaitsForQueue
	if admission.Denied {
		cause = v1.WaitsForQueueAccess
	}
	waits := p.say(attempt.Group, cause, admission.Waits)
	p.decisions.record(&search{attempt: attempt, begin: now}, journal.Queued, waits, nil)
	return Decision{Waits: waits}
}

// waitForMoves lets a gang wait until places that are kept for it are free, or no longer
// kept: both wake it.
func (p *Planner) waitForMoves(s *search, blocked *blockedMoves) Decision {
	p.registry.Fail(s.attempt.Group, s.begin, s.begin.Add(shortestPause))
	waits := p.say(s.attempt.Group, v1.WaitsForMoves, blocked.String())
	p.decisions.record(&search{attempt: s.attempt, begin: s.begin}, journal.Moving, waits, nil)
	return Decision{Waits: waits}
}

// fail explains why a gang has no place, and schedules the next attempt.
func (p *Planner) fail(s *search) Decision {
	attempt := s.attempt
	p.filters.FoundNone(attempt.Group.Key, attempt.Waiting[0].Pod(), s.refused)
	given, renew := p.explain(s)
	if again := p.filters.NotSeen(s.refused.Plugins(), s.begin); !again.IsZero() && (renew.IsZero() || again.Before(renew)) {
		renew = again
	}
	p.registry.FailAttempt(attempt.Group, gangs.Failure{Began: s.begin, Ended: p.clock.Now(), RetryBy: renew, Awaits: awaitedBy(s, &given), Never: given.never})
	text := p.sayReason(attempt.Group, given.reason)
	p.decisions.record(s, journal.Waits, text, nil)
	return Decision{Waits: text}
}

// awaitedBy returns what a gang needs that has no place.
func awaitedBy(s *search, given *cachedMessage) gangs.Awaited {
	switch {
	case given.reason.Never, given.reason.Reason == v1.WaitsForClosedNodes:
		return gangs.AwaitsNodes
	case verdict.OfReason(given.reason) == v1.TaskBlocked: // the filters refuse all nodes that suit it, too
		return gangs.AwaitsOther
	case len(s.refused.Nodes()) > 0:
		return gangs.AwaitsNodes
	default:
		return gangs.AwaitsRoom
	}
}

// say is sayReason for a cause of which no more is known than a sentence.
func (p *Planner) say(group *gangs.Group, cause v1.WaitingCause, text string) string {
	return p.sayReason(group, &v1.WaitingReason{Reason: cause, Message: text})
}

// sayReason counts that an attempt found no place for a gang, and returns how to say why. kube-scheduler takes what it
// is told for a format.
func (p *Planner) sayReason(group *gangs.Group, reason *v1.WaitingReason) string {
	p.metrics.failed.WithLabelValues(string(reason.Reason)).Inc()
	said := *reason
	said.Needs, said.Message = withoutPercent(reason.Needs), withoutPercent(reason.Message)
	return p.reports.Say(group.Key, said)
}

func withoutPercent(text string) string { return strings.ReplaceAll(text, "%", " percent") }
