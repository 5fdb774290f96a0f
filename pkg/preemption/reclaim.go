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
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// systemCritical is the least priority that preempts Pods of other queues, as that of
// system-cluster-critical does.
const systemCritical = 2_000_000_000

// Held is GPUs that a Pod holds.
type Held struct {
	Pod *corev1.Pod
	// Gang is the gang of the Pod; empty for a Pod without one.
	Gang string
	// Queue is the Pod's queue, and Model the model of its GPUs.
	Queue, Model string
	Amount       queueing.Amount
	// Leaving is true for a Pod that is terminating, or is about to.
	Leaving bool
}

// Queues is who may be preempted for a gang in a queue: Pods of a lower priority in the same queue,
// and Pods on GPUs that other queues have borrowed from its guarantee.
type Queues struct {
	queue    string
	priority int32
	queueOf  map[types.UID]string
	// borrowed are the Pods on borrowed GPUs that may be stopped, and least those of them of which each queue loses the
	// least work.
	borrowed, least map[types.UID]Borrowed
}

// Borrowed is a Pod that may be stopped because its queue has borrowed its GPUs.
type Borrowed struct {
	Queue string
	// Notice is how long the Pod goes on after it was told.
	Notice time.Duration
	// order is that in which GPUs are taken back, from 0, and owed what the queue has to give back of the
	// Pod's model in all.
	order int
	owed  queueing.Amount
	// unit is what is stopped with the Pod.
	unit *unit
}

// NewQueues returns who may be preempted for a gang of a priority in a queue that asks for some GPUs, given
// what all Pods hold. See Permits for how much.
func NewQueues(ledger *queueing.Ledger, queue string, asked queueing.Amounts, priority int32, held []Held, now time.Time) *Queues {
	q := &Queues{
		queue: queue, priority: priority, queueOf: make(map[types.UID]string, len(held)),
		borrowed: map[types.UID]Borrowed{}, least: map[types.UID]Borrowed{},
	}
	for i := range held {
		q.queueOf[held[i].Pod.UID] = held[i].Queue
	}
	order := 0
	for _, model := range slices.Sorted(maps.Keys(asked)) {
		for _, lender := range ledger.Reclaimable(queue, model, asked[model]) {
			q.take(&lender, order, held, now)
			order++
		}
	}
	return q
}

// unit is Pods that are stopped together.
type unit struct {
	key    string
	pods   []*corev1.Pod
	amount queueing.Amount
	lost   float64
}

// take adds the Pods of a queue that has borrowed GPUs of a model.
func (q *Queues) take(lender *queueing.Lender, order int, held []Held, now time.Time) {
	owed := lender.Amount
	for i := range held {
		if one := &held[i]; one.Leaving && one.Queue == lender.Queue && one.Model == lender.Model {
			owed -= one.Amount // it gives that back already
		}
	}
	if owed <= 0 {
		return
	}
	left := owed
	for _, one := range unitsOf(lender, held, q.priority, now) {
		for _, pod := range one.pods {
			if _, known := q.borrowed[pod.UID]; known {
				continue
			}
			borrowed := Borrowed{Queue: lender.Queue, Notice: lender.Reclaim.Notice, order: order, owed: owed, unit: one}
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
	units := map[int]map[*unit]bool{}
	owed := map[int]queueing.Amount{}
	for _, pod := range victims {
		borrowed, found := q.borrowed[pod.UID]
		if !found {
			continue
		}
		if units[borrowed.order] == nil {
			units[borrowed.order] = map[*unit]bool{}
		}
		units[borrowed.order][borrowed.unit], owed[borrowed.order] = true, borrowed.owed
	}
	for order, taken := range units {
		sum, largest := queueing.Amount(0), queueing.Amount(0)
		for one := range taken {
			sum, largest = sum+one.amount, max(largest, one.amount)
		}
		if sum-largest >= owed[order] {
			return false
		}
	}
	return true
}

// Least returns the same with only so many of the Pods on borrowed GPUs that any of them may be stopped together: those
// with the least work to lose.
func (q *Queues) Least() *Queues {
	least := *q
	least.borrowed = q.least
	return &least
}

// unitsOf returns what may be stopped of a queue's Pods, the least work first. A gang may be stopped
// only if all of its Pods may.
func unitsOf(lender *queueing.Lender, held []Held, priority int32, now time.Time) []*unit {
	units, kept := map[string]*unit{}, map[string]bool{}
	for i := range held {
		one := &held[i]
		if one.Leaving || one.Queue != lender.Queue || one.Model != lender.Model {
			continue
		}
		key := cmp.Or(one.Gang, string(one.Pod.UID))
		if !mayTake(lender, one.Pod, priority, now) {
			kept[key] = true
			continue
		}
		u := units[key]
		if u == nil {
			u = &unit{key: key}
			units[key] = u
		}
		u.add(one, now)
	}
	list := make([]*unit, 0, len(units))
	for key, u := range units {
		if !kept[key] {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b *unit) int { return cmp.Or(cmp.Compare(a.lost, b.lost), cmp.Compare(a.key, b.key)) })
	return list
}

func (u *unit) add(one *Held, now time.Time) {
	u.pods = append(u.pods, one.Pod)
	u.amount += one.Amount
	pod := checkpoint.Pod{Pod: one.Pod}
	u.lost += max(0, now.Sub(pod.Since(now)).Seconds()) * float64(one.Amount)
}

// mayTake reports whether a Pod's queue lets it be stopped for a gang of a priority.
func mayTake(lender *queueing.Lender, pod *corev1.Pod, priority int32, now time.Time) bool {
	if lender.Reclaim.Policy == queueing.ReclaimLowerPriority && schedulingv1.PodPriority(pod) >= priority {
		return false
	}
	one := checkpoint.Pod{Pod: pod}
	return now.Sub(one.Started()) >= lender.Reclaim.MinRuntime
}

// Victim is for Cluster.Victim: it returns the priority by which victims are chosen, and whether a Pod may be
// one. Borrowed GPUs are taken back before Pods of the own queue are preempted.
func (q *Queues) Victim(pod *corev1.Pod) (priority int32, may bool) {
	if borrowed, found := q.borrowed[pod.UID]; found {
		return costless + 1 + int32(min(borrowed.order, math.MaxInt16)), true //nolint:gosec // bounded
	}
	victim := schedulingv1.PodPriority(pod)
	return victim, victim < q.priority && (q.queueOf[pod.UID] == q.queue || q.priority >= systemCritical)
}

// Key is equal for all that may preempt the same Pods, as far as queues decide; it is empty without queues.
func (q *Queues) Key() string {
	if q == nil {
		return ""
	}
	return fmt.Sprintf("queue %s, %d borrowed", q.queue, len(q.borrowed))
}

// Reclaims reports whether borrowed GPUs come into question.
func (q *Queues) Reclaims() bool { return len(q.borrowed) > 0 }

// Borrowed returns why a Pod is stopped, if that is because its GPUs were borrowed.
func (q *Queues) Borrowed(pod *corev1.Pod) (borrowed Borrowed, found bool) {
	borrowed, found = q.borrowed[pod.UID]
	return borrowed, found
}
