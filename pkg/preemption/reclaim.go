// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	"falldio.github.io/gpu-controller/pkg/checkpoint"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// SystemCritical is the least priority that preempts Pods of other queues, as that of
// system-cluster-critical does.
const SystemCritical = 2_000_000_000

// Held is GPUs that a Pod holds. Pods without GPUs count as well if others of their gangs have some: see
// WithCompanions.
type Held struct {
	Pod *corev1.Pod
	// Gang is the gang of the Pod; empty for a Pod without one.
	Gang string
	// Queue is the Pod's queue, and Model the model of its GPUs; empty without any.
	Queue, Model string
	Amount       queueing.Amount
	// Leaving is true for a Pod that is terminating, or is about to.
	Leaving bool
}

// WithCompanions adds the Pods without GPUs of the gangs that hold some: a gang is stopped as a whole. They count for
// the queue of the others. members returns a gang's Pods that have a node and are not leaving.
func WithCompanions(held []Held, members func(gang string) []*corev1.Pod) []Held {
	known, queues := make(map[types.UID]bool, len(held)), map[string]string{}
	var gangs []string
	for i := range held {
		one := &held[i]
		known[one.Pod.UID] = true
		if _, found := queues[one.Gang]; !found && one.Gang != "" {
			queues[one.Gang] = one.Queue
			gangs = append(gangs, one.Gang)
		}
	}
	for _, gang := range gangs {
		for _, pod := range members(gang) {
			if !known[pod.UID] {
				held = append(held, Held{Pod: pod, Gang: gang, Queue: queues[gang]})
			}
		}
	}
	return held
}

// Queues is who may be preempted for a gang in a queue: Pods of a lower priority in the same queue,
// and Pods on GPUs that other queues have borrowed from its guarantee. If the gang exceeds limits of the
// queue's ancestors, all of them are below the farthest of these: only that helps.
type Queues struct {
	*Prospect
	priority int32
	// held is what Pods hold, and lenders are the queues that give back.
	held    map[types.UID]*Held
	lenders []*lender
	// borrowed are the Pods on borrowed GPUs that may be stopped, and least those of them of which each queue loses the
	// least work.
	borrowed, least map[types.UID]Borrowed
}

// Borrowed is a Pod that may be stopped because its queue has borrowed its GPUs.
type Borrowed struct {
	Queue string
	// Notice is how long the Pod goes on after it was told.
	Notice time.Duration
	lender *lender
	// unit is what is stopped with the Pod.
	unit *unit
}

// lender is a queue that gives back GPUs of a model.
type lender struct {
	queueing.Lender
	// order is that in which GPUs are taken back, from 0, and owed what the queue has to give back of the model in
	// all.
	order int
	owed  queueing.Amount
	// units are what may be stopped, the least work first.
	units []*unit
}

// Prospect is what queues may have to give back for a gang, before it is known which Pods that may cost.
type Prospect struct {
	tree  *queueing.Tree
	queue string
	asked queueing.Amounts
	// shortages are by how much the gang exceeds limits of the queue's ancestors, the nearest first.
	shortages []queueing.Shortage
	// confined is true if the gang exceeds a limit whoever leaves.
	confined    bool
	reclaimable []queueing.Lender
}

// NewProspect returns the Prospect of a gang in a queue that asks for some GPUs. It does not look at Pods.
func NewProspect(ledger *queueing.Ledger, queue string, asked queueing.Amounts) *Prospect {
	p := &Prospect{tree: ledger.Tree(), queue: queue, asked: asked}
	shortages, mendable := ledger.Shortages(queue, asked)
	if p.shortages, p.confined = shortages, !mendable; !p.confined {
		p.reclaimable = ledger.Reclaimable(queue, asked)
	}
	return p
}

// Key is equal for gangs for which the same queues have to give back the same; it is empty for nil, without queues.
func (p *Prospect) Key() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("queue %s, lent %v, lacking %v", p.queue, p.reclaimable, p.shortages)
}

// Reclaims reports whether any queue has to give back GPUs.
func (p *Prospect) Reclaims() bool { return p != nil && len(p.reclaimable) > 0 }

// Queues returns who may be preempted for a gang of this priority, given what all Pods hold. See Permits for how much.
func (p *Prospect) Queues(priority int32, held []Held, now time.Time) *Queues {
	q := &Queues{
		Prospect: p, priority: priority,
		held: make(map[types.UID]*Held, len(held)), borrowed: map[types.UID]Borrowed{}, least: map[types.UID]Borrowed{},
	}
	for i := range held {
		q.held[held[i].Pod.UID] = &held[i]
	}
	for order, one := range p.reclaimable {
		q.take(&lender{Lender: one, order: order, owed: one.Amount}, held, now)
	}
	for _, from := range q.lenders {
		for _, one := range from.units {
			q.addOthers(from, one)
		}
	}
	return q
}

// NewQueues returns who may be preempted for a gang of a priority in a queue that asks for some GPUs, given
// what all Pods hold.
func NewQueues(ledger *queueing.Ledger, queue string, asked queueing.Amounts, priority int32, held []Held, now time.Time) *Queues {
	return NewProspect(ledger, queue, asked).Queues(priority, held, now)
}

// unit is Pods that are stopped together: a gang, or a Pod without one.
type unit struct {
	key  string
	gang string
	// pods hold the amount that is taken back, and others are the rest of the gang.
	pods, others []*corev1.Pod
	amount       queueing.Amount
	lost         float64
}

// addOthers has the rest of a gang stopped with those that hold what is taken back.
func (q *Queues) addOthers(from *lender, one *unit) {
	_, least := q.least[one.pods[0].UID]
	for _, pod := range one.others {
		borrowed, known := q.borrowed[pod.UID]
		if !known {
			borrowed = Borrowed{Queue: from.Queue, Notice: from.Reclaim.Notice, lender: from, unit: one}
			q.borrowed[pod.UID] = borrowed
		}
		if least {
			q.least[pod.UID] = borrowed
		}
	}
}

// take adds the Pods of a queue that has borrowed GPUs of a model.
func (q *Queues) take(from *lender, held []Held, now time.Time) {
	for i := range held {
		if one := &held[i]; one.Leaving && one.Queue == from.Queue && one.Model == from.Model {
			from.owed -= one.Amount // it gives that back already
		}
	}
	if from.owed <= 0 {
		return
	}
	from.units = unitsOf(&from.Lender, held, q.priority, now)
	q.lenders = append(q.lenders, from)
	left := from.owed
	for _, one := range from.units {
		for _, pod := range one.pods {
			if _, known := q.borrowed[pod.UID]; known {
				continue
			}
			borrowed := Borrowed{Queue: from.Queue, Notice: from.Reclaim.Notice, lender: from, unit: one}
			q.borrowed[pod.UID] = borrowed
			if left > 0 {
				q.least[pod.UID] = borrowed
			}
		}
		left -= one.amount
	}
}

// Permits reports whether Pods may be stopped together: no queue loses more GPUs than it has borrowed, except that its
// last gang is stopped as a whole.
func (q *Queues) Permits(victims []*corev1.Pod) bool {
	for from, units := range q.unitsWith(victims) {
		sum, largest := queueing.Amount(0), queueing.Amount(0)
		for one := range units {
			sum, largest = sum+one.amount, max(largest, one.amount)
		}
		if sum-largest >= from.owed {
			return false
		}
	}
	return true
}

// unitsWith returns what of each queue is stopped with some Pods.
func (q *Queues) unitsWith(victims []*corev1.Pod) map[*lender]map[*unit]bool {
	units := map[*lender]map[*unit]bool{}
	for _, pod := range victims {
		borrowed, found := q.borrowed[pod.UID]
		if !found {
			continue
		}
		if units[borrowed.lender] == nil {
			units[borrowed.lender] = map[*unit]bool{}
		}
		units[borrowed.lender][borrowed.unit] = true
	}
	return units
}

// Least returns the same with only so many of the Pods on borrowed GPUs that any of them may be stopped together: those
// with the least work to lose.
func (q *Queues) Least() *Queues {
	least := *q
	least.borrowed = q.least
	return &least
}

// unitsOf returns what may be stopped of a queue's Pods, the least work first. A gang may be stopped
// only if all of its Pods in the queue may.
func unitsOf(lender *queueing.Lender, held []Held, priority int32, now time.Time) []*unit {
	units := map[string]*unit{}
	for i := range held {
		if one := &held[i]; lends(lender, one) {
			units[one.unitKey()] = &unit{key: one.unitKey(), gang: one.Gang}
		}
	}
	for i := range held {
		one := &held[i]
		u := units[one.unitKey()]
		switch {
		case u == nil || one.Leaving:
		case one.Queue == lender.Queue && !mayTake(lender, one.Pod, priority, now):
			delete(units, u.key)
		default:
			u.add(one, lends(lender, one), now)
		}
	}
	list := slices.Collect(maps.Values(units))
	slices.SortFunc(list, func(a, b *unit) int { return cmp.Or(cmp.Compare(a.lost, b.lost), cmp.Compare(a.key, b.key)) })
	return list
}

// unitKey is equal for all Pods that are stopped together.
func (h *Held) unitKey() string { return cmp.Or(h.Gang, string(h.Pod.UID)) }

// lends reports whether a Pod holds GPUs of what a queue gives back.
func lends(lender *queueing.Lender, one *Held) bool {
	return !one.Leaving && one.Queue == lender.Queue && one.Model == lender.Model && one.Amount > 0
}

// add adds a Pod, which holds a part of what is taken back if it lends.
func (u *unit) add(one *Held, lends bool, now time.Time) {
	pod := checkpoint.Pod{Pod: one.Pod}
	u.lost += max(0, now.Sub(pod.Since(now)).Seconds()) * float64(one.Amount)
	if !lends {
		u.others = append(u.others, one.Pod)
		return
	}
	u.pods = append(u.pods, one.Pod)
	u.amount += one.Amount
}

// mayTake reports whether a Pod's queue lets it be stopped for a gang of a priority.
func mayTake(lender *queueing.Lender, pod *corev1.Pod, priority int32, now time.Time) bool {
	if lender.Reclaim.Policy == queueing.ReclaimLowerPriority && schedulingv1.PodPriority(pod) >= priority {
		return false
	}
	return now.Sub(podfacts.FirstStarted(pod)) >= lender.Reclaim.MinRuntime
}

// Victim is for Cluster.Victim: it returns the priority by which victims are chosen, and whether a Pod may be
// one. Borrowed GPUs are taken back before Pods of the own queue are preempted.
func (q *Queues) Victim(pod *corev1.Pod) (priority int32, may bool) {
	if borrowed, found := q.borrowed[pod.UID]; found {
		return costless + 1 + int32(min(borrowed.lender.order, math.MaxInt16)), true //nolint:gosec // bounded
	}
	victim, queue := schedulingv1.PodPriority(pod), queueing.NoQueue
	if held := q.held[pod.UID]; held != nil {
		queue = held.Queue
	}
	return victim, victim < q.priority && (queue == q.queue || q.priority >= SystemCritical) && queueing.Helps(q.shortages, q.tree, queue)
}

// Asked returns the gang's queue, and what the gang asks for.
func (q *Queues) Asked() (queue string, amounts queueing.Amounts) { return q.queue, q.asked }

// Reclaims reports whether borrowed GPUs come into question.
func (q *Queues) Reclaims() bool { return len(q.borrowed) > 0 }

// Borrowed returns why a Pod is stopped, if that is because its GPUs were borrowed.
func (q *Queues) Borrowed(pod *corev1.Pod) (borrowed Borrowed, found bool) {
	borrowed, found = q.borrowed[pod.UID]
	return borrowed, found
}
