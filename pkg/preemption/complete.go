// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

// ExceedsLimits reports whether the gang exceeds limits of its queue's ancestors: others have to give back GPUs before
// it may start, even if there is room for it. Only then Complete finds somebody.
func (q *Queues) ExceedsLimits() bool { return q != nil && len(q.shortages) > 0 }

// Complete returns whom to stop beside the victims that make room for a gang, so that it exceeds no limit of its
// queue's ancestors: those on borrowed GPUs that lose the least work. enough is false if it would exceed one even so.
func (c *Cluster) Complete(q *Queues, victims []*corev1.Pod) (more []*corev1.Pod, enough bool) {
	switch {
	case q != nil && q.confined:
		return nil, false
	case !q.ExceedsLimits():
		return nil, true
	}
	done := &completion{cluster: c, queues: q, victims: slices.Clone(victims), stopped: map[types.UID]bool{}}
	for _, pod := range victims {
		done.stopped[pod.UID] = true
	}
	for i := range q.shortages {
		if !done.mend(&q.shortages[i]) {
			return nil, false
		}
	}
	return done.victims[len(victims):], true
}

// completion looks for more victims until no limit is exceeded.
type completion struct {
	cluster *Cluster
	queues  *Queues
	victims []*corev1.Pod
	stopped map[types.UID]bool // the victims
}

// mend adds victims until a shortage is made up for. It returns false if there are too few.
func (c *completion) mend(shortage *queueing.Shortage) bool {
	missing := shortage.Amount
	for uid, held := range c.queues.held {
		if (held.Leaving || c.stopped[uid]) && shortage.Covers(c.queues.tree, held.Queue, held.Model) {
			missing -= held.Amount
		}
	}
	for _, from := range c.queues.lenders {
		if !shortage.Covers(c.queues.tree, from.Queue, from.Model) {
			continue
		}
		for _, one := range from.units {
			if missing > 0 && c.left(from) > 0 {
				missing -= c.stop(one, shortage, missing)
			}
		}
	}
	return missing <= 0
}

// left returns what a queue still has to give back beside the victims.
func (c *completion) left(from *lender) queueing.Amount {
	left := from.owed
	for one := range c.queues.unitsWith(c.victims)[from] {
		left -= one.amount
	}
	return left
}

// stop adds Pods that hold an amount of what is short, and returns how much of it they hold: as few as possible of the
// members that a gang can do without, else all of the gang, whatever these hold. It adds none if they can't be stopped
// now.
func (c *completion) stop(one *unit, shortage *queueing.Shortage, missing queueing.Amount) (given queueing.Amount) {
	running, spare := c.running(one)
	chosen := c.fewest(running[:spare], missing)
	if chosen == nil {
		chosen = slices.Concat(running, c.staying(one.others))
	}
	if !c.allows(chosen) {
		return 0
	}
	c.victims = append(c.victims, chosen...)
	for _, pod := range chosen {
		c.stopped[pod.UID] = true
		if held := c.queues.held[pod.UID]; shortage.Covers(c.queues.tree, held.Queue, held.Model) {
			given += held.Amount
		}
	}
	return given
}

// fewest returns the first Pods that hold an amount together; nil if all of them hold less.
func (c *completion) fewest(pods []*corev1.Pod, amount queueing.Amount) []*corev1.Pod {
	for i, pod := range pods {
		if amount -= c.queues.held[pod.UID].Amount; amount <= 0 {
			return pods[:i+1]
		}
	}
	return nil
}

// running returns the Pods that hold what is taken back and are no victims yet, and how many of them may leave while
// the others stay.
func (c *completion) running(one *unit) (pods []*corev1.Pod, spare int) {
	pods = c.staying(one.pods)
	if one.gang != "" && c.cluster.Spare != nil {
		stopped := len(one.pods) - len(pods) + len(one.others) - len(c.staying(one.others))
		spare = c.cluster.Spare(one.gang) - stopped
	}
	return pods, min(max(spare, 0), len(pods))
}

// staying returns those of some Pods that may be stopped and are no victims yet.
func (c *completion) staying(pods []*corev1.Pod) (list []*corev1.Pod) {
	for _, pod := range pods {
		if _, may := c.queues.borrowed[pod.UID]; may && !c.stopped[pod.UID] {
			list = append(list, pod)
		}
	}
	return list
}

// allows reports whether Pods can be stopped beside the victims now.
func (c *completion) allows(pods []*corev1.Pod) bool {
	protected := slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		holder, known := c.cluster.Holder(string(pod.UID))
		return !known || holder.Protected
	})
	return !protected && c.cluster.Budgets.Exceeded(slices.Concat(c.victims, pods)) == ""
}
