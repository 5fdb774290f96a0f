// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	"falldio.github.io/gpu-controller/pkg/disruption"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/preemption"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/eviction"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// noVictims is the message if no preemption helps, and noVictimsInTime if the time was up before
// that was known.
const (
	noVictims       = "preempting Pods of a lower priority would not help"
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
	if p.filters.Last(attempt.Group.Key).AtAll() != nil {
		return "" // whoever leaves, no node would take it
	}
	s := &search{attempt: attempt, begin: p.clock.Now(), request: request}
	prospect := p.prospectOf(attempt, request)
	if why, none := p.nobodyFor(attempt, admitted.Limited, prospect.Reclaims()); none {
		return why
	}
	defer func() { p.registry.Prolong(pod.UID, s.begin, p.clock.Now()) }()
	return p.preemptFor(ctx, pod, s, prospect, admitted.Limited)
}

// nobodyFor reports whether it is known without a search that no Pods may be preempted for a gang, and returns what to say about it.
// If its queue may not hold the gang because of a limit, only GPUs that others have borrowed help: reclaims is true if there may be
// any.
func (p *Planner) nobodyFor(attempt *gangs.Attempt, limited, reclaims bool) (why string, none bool) {
	switch {
	case reclaims || !limited && p.mirror.HasBelow(attempt.Priority):
		return "", false
	case p.evictor.UnderWay(attempt.Group.Key):
		return victimsLeaving, true // they have been told, and have some time left
	case limited:
		return "", true
	default:
		return noVictims, true
	}
}

// preemptFor searches Pods to preempt, unless such a search has just been in vain. limited is true if the gang's queue may not hold it
// because of a limit.
func (p *Planner) preemptFor(ctx context.Context, pod *corev1.Pod, s *search, prospect *preemption.Prospect, limited bool) string {
	s.keys = toPreempt(p.keysOf(s.attempt, s.request), s.attempt.Priority, p.prospectKey(prospect), p.mirror.NodesVersion(), p.evictor.BudgetsRaised())
	for _, key := range [...]string{s.keys.Request, s.keys.Filtered} {
		if known, good := p.explanations.get(key, s.begin); good {
			return known.text
		}
	}
	taken := p.reclaimFor(s.attempt, prospect)
	if why, none := p.nobodyFor(s.attempt, limited, taken != nil && taken.Reclaims()); none {
		if why != victimsLeaving { // which ends
			p.explanations.put(s.keys.Request, cachedMessage{text: why, at: s.begin})
		}
		return why
	}
	s.questions = p.decisions.recorder.NewQuestions()
	found := p.preemption(s, taken) //nolint:contextcheck // its trials end with the cycle, which is not cancelled
	switch {
	case found.plan == nil && found.arriving:
		p.evictor.AwaitArrivals()
		return "Pods of a lower priority are being bound"
	case found.plan == nil:
		p.evictor.AwaitBudgets()
		text := noVictims
		if found.late {
			text = noVictimsInTime
		}
		p.explanations.put(s.keys.After(found.filtered), cachedMessage{text: text, at: s.begin})
		return text
	}
	said := p.makeRoom(ctx, pod, s, found)
	if said != victimsLeaving { // else it was recorded when they were told
		p.decisions.preempts(s, found, said)
	}
	return said
}

// toPreempt returns the keys of a preemption for a gang of a priority, with that of what queues may have to give back. On other nodes,
// or with other PodDisruptionBudgets, others may leave.
func toPreempt(k filters.Keys, priority int32, prospect string, nodes, budgets uint64) filters.Keys {
	prefix := fmt.Sprintf("preempt\x00%d\x00%s\x00%d\x00%d\x00", priority, prospect, nodes, budgets)
	return filters.Keys{Request: prefix + k.Request, Filtered: prefix + k.Filtered}
}

// makeRoom keeps the nodes of a plan for a gang and evicts the victims: never one without the other.
func (p *Planner) makeRoom(ctx context.Context, pod *corev1.Pod, s *search, found *preemptionPlan) string {
	now, victims, group := p.clock.Now(), found.victims, s.attempt.Group.Key
	if len(victims) == 0 {
		if !p.claims.pauses(group, now) {
			p.claim(s.attempt, p.claimOf(found, now), now)
		}
		return victimsLeaving
	}
	if !p.evictor.Begin(group) {
		return victimsLeaving // what was kept for it stays so until its victims are gone
	}
	p.claim(s.attempt, p.claimOf(found, now), now)
	p.evictor.Mark(victims, found.budgets)
	ctx = context.WithoutCancel(ctx) // the scheduling cycle, whose context this is, ends earlier
	p.evictor.Nominate(ctx, group, nominationsFor(s.request, found), s.attempt.Waiting[0].UID)
	go p.evictor.Evict(ctx, group, pod, victims, found.taken)
	return describeVictims(victims, found.taken)
}

// makingRoom reports whether Pods leave for a gang.
func (p *Planner) makingRoom(group string) bool {
	return p.evictor.UnderWay(group) || p.claims.clearing(group)
}

// claimOf returns the claim of the nodes of a plan. It lasts until the grace periods of all that leave have ended, and
// claimSeconds longer.
func (p *Planner) claimOf(found *preemptionPlan, now time.Time) *claim {
	lasts := config.Seconds(p.args.ClaimSeconds)
	one := &claim{
		nodes: mirror.RoomOf(found.plan), leaving: found.leaving, evicts: len(found.victims) > 0,
		until:      now.Add(lasts + eviction.LongestTime(found.victims, found.taken)),
		graceUntil: found.graceUntil.Add(lasts),
	}
	if found.taken != nil {
		one.queue, one.demand = found.taken.Asked()
	}
	return one
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

// preemptionPlan is where a gang goes once victims have left.
type preemptionPlan struct {
	// plan is nil if nothing helps.
	plan *placement.Plan
	// victims are those that have yet to be evicted; others may be leaving already.
	victims []*corev1.Pod
	// leaving are those whose places the gang needs.
	leaving map[types.UID]bool
	// vacated are their nodes.
	vacated map[string]bool
	// graceUntil is when the grace periods of those end that were deleted already; zero if there are none.
	graceUntil time.Time
	budgets    *disruption.Budgets
	// taken is whose GPUs may be taken back; nil without GPUQueues.
	taken *preemption.Queues
	// arriving is true if Pods that are being bound may help once they are.
	arriving bool
	// filtered is true if filters have refused proposals, and late if the time was up before all
	// were checked.
	filtered, late bool
}

// preemption looks for victims after which the gang fits, and its nodes accept it as they
// will be then: nobody is evicted before kube-scheduler's filters have agreed. If the victims that are
// best for the gang are more than their queues have to give back, others are looked for.
func (p *Planner) preemption(s *search, taken *preemption.Queues) *preemptionPlan {
	found := p.preemptionOf(s, taken)
	if taken == nil || found.plan == nil || taken.Permits(found.victims) {
		return found
	}
	return p.preemptionOf(s, taken.Least())
}

func (p *Planner) preemptionOf(s *search, taken *preemption.Queues) (found *preemptionPlan) {
	found = &preemptionPlan{budgets: p.evictor.Budgets(), taken: taken}
	attempt, dryRun := s.attempt, p.filters.DryRunFor(s.request, s.questions)
	dryRun.WithoutVictims = taken.ExceedsLimits()
	p.mirror.For(p.finder.requesterOf(attempt), func(cluster *placement.Cluster) {
		holders := p.mirror.Holders()
		rules := preemption.Cluster{
			Holder: func(name string) (preemption.Holder, bool) {
				holder, known := p.holder(holders, name)
				// A Pod that is being bound can't be deleted cleanly before it is bound.
				found.arriving = found.arriving || holder.Protected && schedulingv1.PodPriority(holder.Pod) < attempt.Priority
				return holder, known
			},
			Spare: p.registry.Spare, Budgets: found.budgets, Now: p.clock.Now(),
		}
		if taken != nil {
			rules.Victim = taken.Victim
		}
		s.request.NearFirst(func(request *gangs.Request) bool {
			proposal := dryRun.Propose(cluster, request, rules.Rules(attempt.Priority), holders)
			if found.filtered, found.late = dryRun.Filtered, dryRun.Late; proposal == nil {
				return false
			}
			victims := rules.Victims(proposal)
			more, enough := rules.Complete(taken, victims)
			if !enough {
				return false
			}
			found.plan, found.victims = proposal.Plan, slices.Concat(victims, more)
			found.leaving, found.vacated = map[types.UID]bool{}, map[string]bool{}
			for _, name := range proposal.Victims {
				found.leaving[types.UID(name)] = true
				if victim, known := holders(name); known {
					found.vacated[victim.Node] = true
					if end := eviction.GraceEnd(victim.Pod); end.After(found.graceUntil) {
						found.graceUntil = end
					}
				}
			}
			return true
		})
	})
	return found
}

// holder returns what preemption needs to know about a Pod that holds a place.
func (p *Planner) holder(holders func(string) (snapshot.Holder, bool), name string) (preemption.Holder, bool) {
	holder, known := holders(name)
	if !known {
		return preemption.Holder{}, false
	}
	uid := types.UID(name)
	return preemption.Holder{
		Pod: holder.Pod, Gang: p.registry.GangOf(uid), Protected: p.registry.Placing(uid),
		Leaving: holder.Pod.DeletionTimestamp != nil || p.registry.Terminating(uid),
	}, true
}
