// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/disruption"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/preemption"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/eviction"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
	"falldio.github.io/gpu-controller/scheduler/queues"
)

// reclaimPeriod is for how long it is remembered that nobody may be preempted although queues have borrowed: their Pods
// may become old enough meanwhile.
const reclaimPeriod = 2 * time.Second

// victimFinder finds whom a gang may preempt: Pods of a lower priority, and those that hold GPUs which their queues
// have to give back. It stops nobody. It is for scheduling cycles.
type victimFinder struct {
	mirror   *mirror.Mirror
	registry *gangs.Registry
	line     *queues.Line
	filters  *filters.Consultant
	finder   *finder
	evictor  *eviction.Evictor
	clock    clock.PassiveClock
}

// prospectOf returns what queues may have to give back for a gang; nil without GPUQueues, where priority alone decides.
func (v *victimFinder) prospectOf(attempt *gangs.Attempt, request *gangs.Request) *preemption.Prospect {
	state := v.line.State()
	if !state.Tree().HasQueues() {
		return nil
	}
	queue := state.QueueOf(attempt.Waiting[0].Pod()).Queue
	return preemption.NewProspect(v.line.Ledger(state, attempt.Group.Key), queue, gpuqueue.Least(&request.Gang))
}

// prospectKey is equal for gangs that may preempt the same Pods, as far as queues decide.
func (v *victimFinder) prospectKey(prospect *preemption.Prospect) string {
	if prospect.Reclaims() {
		return prospect.Key() + v.clock.Now().Truncate(reclaimPeriod).String()
	}
	return prospect.Key()
}

// keysFor returns the keys of a preemption for a gang of a priority, with that of what queues may have to give back. On
// other nodes, or with other PodDisruptionBudgets, others may leave.
func (v *victimFinder) keysFor(k filters.Keys, priority int32, prospect *preemption.Prospect) filters.Keys {
	prefix := fmt.Sprintf("preempt\x00%d\x00%s\x00%d\x00%d\x00", priority, v.prospectKey(prospect), v.mirror.NodesVersion(), v.evictor.BudgetsRaised())
	return filters.Keys{Request: prefix + k.Request, Filtered: prefix + k.Filtered}
}

// reclaimFor returns who may be preempted for a gang because of its queue; nil without GPUQueues. It looks at all Pods
// with GPUs.
func (v *victimFinder) reclaimFor(attempt *gangs.Attempt, prospect *preemption.Prospect) *preemption.Queues {
	if prospect == nil {
		return nil
	}
	assigned := queues.RunningPods{State: v.line.State()}
	var holdings []mirror.Holding
	v.mirror.With(func(*placement.Cluster) { holdings = v.mirror.HoldingPods() })
	held := make([]preemption.Held, 0, len(holdings))
	for i := range holdings {
		holding := &holdings[i]
		held = append(held, preemption.Held{
			Pod: holding.Pod, Gang: v.registry.GangOf(types.UID(holding.Name)), Model: holding.Model, Queue: assigned.QueueOf(holding.Pod), Amount: queueing.Amount(holding.Percent),
			Leaving: holding.Pod.DeletionTimestamp != nil || v.registry.Terminating(types.UID(holding.Name)),
		})
	}
	return prospect.Queues(attempt.Priority, preemption.WithCompanions(held, v.registry.Staying), v.clock.Now())
}

// hopeless reports whether no node would take a gang, whoever leaves.
func (v *victimFinder) hopeless(attempt *gangs.Attempt) bool {
	return v.filters.Last(attempt.Group.Key).AtAll() != nil
}

// nobodyFor reports whether it is known without a search that no Pods may be preempted for a gang, and returns what to
// say about it. If its queue may not hold the gang because of a limit, only GPUs that others have borrowed help:
// reclaims is true if there may be any.
func (v *victimFinder) nobodyFor(attempt *gangs.Attempt, limited, reclaims bool) (why string, none bool) {
	switch {
	case reclaims || !limited && v.mirror.HasBelow(attempt.Priority):
		return "", false
	case v.evictor.UnderWay(attempt.Group.Key):
		return victimsLeaving, true // they have been told, and have some time left
	case limited:
		return "", true
	default:
		return NoVictims, true
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

// find looks for victims after which the gang fits, and its nodes accept it as they will be then: nobody is evicted
// before kube-scheduler's filters have agreed. If the victims that are best for the gang are more than their queues
// have to give back, others are looked for. If there are none, the gang is woken when there may be some.
func (v *victimFinder) find(s *search, taken *preemption.Queues) *preemptionPlan {
	found := v.findAmong(s, taken)
	if taken != nil && found.plan != nil && !taken.Permits(found.victims) {
		found = v.findAmong(s, taken.Least())
	}
	switch {
	case found.plan == nil && found.arriving:
		v.evictor.AwaitArrivals()
	case found.plan == nil:
		v.evictor.AwaitBudgets()
	}
	return found
}

func (v *victimFinder) findAmong(s *search, taken *preemption.Queues) (found *preemptionPlan) {
	found = &preemptionPlan{budgets: v.evictor.Budgets(), taken: taken}
	attempt, dryRun := s.attempt, v.filters.DryRunFor(s.request, s.questions)
	dryRun.WithoutVictims = taken.ExceedsLimits()
	v.mirror.For(v.finder.requesterOf(attempt), func(cluster *placement.Cluster) {
		holders := v.mirror.Holders()
		rules := preemption.Cluster{
			Holder: func(name string) (preemption.Holder, bool) {
				holder, known := v.holder(holders, name)
				// A Pod that is being bound can't be deleted cleanly before it is bound.
				found.arriving = found.arriving || holder.Protected && schedulingv1.PodPriority(holder.Pod) < attempt.Priority
				return holder, known
			},
			Spare: v.registry.Spare, Budgets: found.budgets, Now: v.clock.Now(),
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
func (v *victimFinder) holder(holders func(string) (snapshot.Holder, bool), name string) (preemption.Holder, bool) {
	holder, known := holders(name)
	if !known {
		return preemption.Holder{}, false
	}
	uid := types.UID(name)
	return preemption.Holder{
		Pod: holder.Pod, Gang: v.registry.GangOf(uid), Protected: v.registry.Placing(uid),
		Leaving: holder.Pod.DeletionTimestamp != nil || v.registry.Terminating(uid),
	}, true
}
