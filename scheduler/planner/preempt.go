// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/preemption"
)

// NoVictims is the message of Preempt if no preemption helps, and noVictimsInTime if the time was up before
// that was known.
const (
	NoVictims       = "preempting Pods of a lower priority would not help"
	noVictimsInTime = "in the time for one search, no Pods of a lower priority were found whose preemption would help"
)

// victimsLeaving is the message while Pods are terminating that have to leave, be it for a
// preemption or for another reason.
const victimsLeaving = "Pods whose places it needs are terminating"

// Preempt makes room for a gang that has just found no place: Pods of a lower priority
// leave, whole gangs of them, if and only if the gang then fits. It returns what it does,
// as a message.
func (p *Planner) Preempt(ctx context.Context, pod *corev1.Pod) string {
	if !preemption.Preempts(pod) {
		return "its preemption policy is Never"
	}
	if !p.term.MayAct() {
		return ""
	}
	attempt := p.registry.Attempt(pod.UID)
	if attempt == nil || attempt.Err != nil {
		return ""
	}
	if attempt.Extra {
		return "Pods above the gang's minimum don't preempt others"
	}
	request, err := p.requestOf(attempt)
	if err != nil {
		return ""
	}
	request, admitted := p.line.Admit(attempt, request)
	if admitted.Waits != "" && !admitted.Limited {
		return "" // its queue does not let it start
	}
	if p.finder.moving(attempt) {
		return "" // its place is kept for it
	}
	if p.victimFinder.hopeless(attempt) {
		return ""
	}
	s := &search{attempt: attempt, begin: p.clock.Now(), request: request}
	prospect := p.victimFinder.prospectOf(attempt, request)
	if why, none := p.victimFinder.nobodyFor(attempt, admitted.Limited, prospect.Reclaims()); none {
		return why
	}
	defer func() { p.registry.Prolong(pod.UID, s.begin, p.clock.Now()) }()
	return p.preemptFor(ctx, pod, s, prospect, admitted.Limited)
}

// preemptFor searches Pods to preempt, unless such a search has just been in vain. limited is true if the gang's queue
// may not hold it because of a limit.
func (p *Planner) preemptFor(ctx context.Context, pod *corev1.Pod, s *search, prospect *preemption.Prospect, limited bool) string {
	s.keys = p.victimFinder.keysFor(p.keysOf(s.attempt, s.request), s.attempt.Priority, prospect)
	for _, key := range [...]string{s.keys.Request, s.keys.Filtered} {
		if known, good := p.explanations.get(key, s.begin); good {
			return known.text
		}
	}
	taken := p.victimFinder.reclaimFor(s.attempt, prospect)
	if why, none := p.victimFinder.nobodyFor(s.attempt, limited, taken != nil && taken.Reclaims()); none {
		if !p.evictor.UnderWay(s.attempt.Group.Key) { // which ends
			p.explanations.put(s.keys.Request, cachedMessage{text: why, at: s.begin})
		}
		return why
	}
	s.questions = p.decisions.recorder.NewQuestions()
	found := p.victimFinder.find(s, taken) //nolint:contextcheck // its trials end with the cycle, which is not cancelled
	switch {
	case found.plan == nil && found.arriving:
		return "Pods of a lower priority are being bound"
	case found.plan == nil:
		text := NoVictims
		if found.late {
			text = noVictimsInTime
		}
		p.explanations.put(s.keys.After(found.filtered), cachedMessage{text: text, at: s.begin})
		return text
	}
	if !p.makeRoom(ctx, pod, s, found) {
		return victimsLeaving // which was recorded when they were told
	}
	said := describeVictims(found.victims, found.taken)
	p.decisions.preempts(s, found, said)
	return said
}

// describeVictims tells the preemptor's owner what is done.
func describeVictims(victims []*corev1.Pod, taken *preemption.Queues) string {
	reclaimed := 0
	for _, victim := range victims {
		if taken != nil {
			if _, found := taken.Borrowed(victim); found {
				reclaimed++
			}
		}
	}
	switch {
	case reclaimed == 0:
		return plural.Count(len(victims), "Pod") + " of a lower priority " + plural.Verb(len(victims), "is", "are") + " preempted"
	case reclaimed == len(victims):
		return "GPUs that other queues have borrowed are taken back from " + plural.Count(reclaimed, "Pod")
	default:
		others := len(victims) - reclaimed
		return fmt.Sprintf("GPUs that other queues have borrowed are taken back from %s, and %s of a lower priority %s preempted",
			plural.Count(reclaimed, "Pod"), plural.Count(others, "Pod"), plural.Verb(others, "is", "are"))
	}
}
