// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"
	"time"
)

// checkGuarantees is invariant 2: a queue that wants no more than it is guaranteed gets it, within a bound. Only what
// is certain counts: gangs for which there is room if those end that have to give back, while all nodes are usable, in
// queues of which nothing waits that is beyond the guarantee, because that may go first.
func (v *invariants) checkGuarantees() {
	owed := v.owedGangs()
	for name, g := range v.gangs {
		if !owed[name] {
			if g.isOwed && heldBy(v.podsOf(name)) > 0 {
				v.settled(g)
			}
			g.isOwed = false
			continue
		}
		if !g.isOwed {
			g.isOwed, g.owedSince = true, v.now
			v.found.owed++
			continue
		}
		minRuntime, notice := v.reclaimTimes()
		if most := v.bounds.owed(minRuntime, notice) + v.killsSince(g.owedSince)*v.bounds.takeover; v.now-g.owedSince > most {
			v.problem("%s in queue %s waits for %v for what its queue is guaranteed; at most %v is due; the queues hold %v",
				name, v.queueOf(name), v.now-g.owedSince, most, v.held())
			g.owedSince = v.now
		}
	}
}

// settled takes note of a gang that has got what it was owed. Others of its queue may have waited for it.
func (v *invariants) settled(started *gangStory) {
	v.found.longestOwed = max(v.found.longestOwed, v.now-started.owedSince)
	for _, g := range v.gangs {
		if g.isOwed && g != started && g.task != nil && started.task != nil && g.task.queue == started.task.queue {
			g.owedSince = v.now
		}
	}
}

func (v *invariants) queueOf(gang string) string {
	for _, pod := range v.pods {
		if pod.gang == gang {
			return pod.queue
		}
	}
	return ""
}

// reclaimTimes returns the longest times that any queue takes to give something back.
func (v *invariants) reclaimTimes() (minRuntime, notice time.Duration) {
	for _, s := range v.shares {
		minRuntime, notice = max(minRuntime, s.minRuntime), max(notice, s.notice)
	}
	return minRuntime, notice
}

// owedGangs returns the gangs that wait for what their queues are guaranteed.
func (v *invariants) owedGangs() map[string]bool {
	owed := map[string]bool{}
	for _, node := range v.nodes {
		if !node.usable {
			return owed
		}
	}
	held, gangs := v.held(), v.byGang()
	for queue, waiting := range v.waitingGangs(gangs) {
		if v.shares[queue].guaranteed == 0 || !v.allWithin(queue, waiting, gangs, held) {
			continue
		}
		for _, name := range waiting {
			if v.fits(queue, gangs[name], gangs, held) {
				owed[name] = true
			}
		}
	}
	return owed
}

// waitingGangs returns the gangs of which all Pods are there and wait, by queue.
func (v *invariants) waitingGangs(gangs map[string][]*podFact) map[string][]string {
	waiting := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(gangs)) {
		pods := gangs[name]
		if len(pods) >= pods[0].size && !slices.ContainsFunc(pods, func(pod *podFact) bool { return !pod.waits() }) {
			waiting[pods[0].queue] = append(waiting[pods[0].queue], name)
		}
	}
	return waiting
}

// allWithin reports whether each gang of a queue is within its guarantee, and within the limits.
func (v *invariants) allWithin(queue string, waiting []string, gangs map[string][]*podFact, held map[string]int) bool {
	for _, name := range waiting {
		size := sizeOf(gangs[name])
		if held[queue]+size > v.shares[queue].guaranteed {
			return false
		}
		for _, above := range v.path(queue) {
			if limit := v.shares[above].limit; limit > 0 && held[above]+size > limit {
				return false
			}
		}
	}
	return true
}

func sizeOf(pods []*podFact) (gpus int) {
	for _, pod := range pods {
		gpus += pod.gpus
	}
	return gpus
}

// fits reports whether there is room for a gang when those have ended that have to give back. The Pods of a gang are
// alike.
func (v *invariants) fits(queue string, gang []*podFact, gangs map[string][]*podFact, held map[string]int) bool {
	free := map[string]int{}
	for name, node := range v.nodes {
		free[name] = node.gpus
	}
	returned := v.returned(queue, sizeOf(gang), gangs, maps.Clone(held))
	for name, pods := range gangs {
		for _, pod := range pods {
			if pod.holds() && !returned[name] {
				free[pod.node] -= pod.gpus
			}
		}
	}
	places := 0
	for _, gpus := range free {
		places += max(0, gpus) / gang[0].gpus
	}
	return places >= len(gang)
}

// returned returns gangs that are given back for a request of a queue, one after the other as long as they are
// borrowed.
func (v *invariants) returned(queue string, size int, gangs map[string][]*podFact, held map[string]int) map[string]bool {
	returned := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(gangs)) {
		lender, holds := gangs[name][0].queue, heldBy(gangs[name])
		if holds == 0 || !v.borrowed(queue, lender, size, held) {
			continue
		}
		returned[name] = true
		for _, above := range v.path(lender) {
			held[above] -= holds
		}
	}
	return returned
}

func heldBy(pods []*podFact) (gpus int) {
	for _, pod := range pods {
		if pod.holds() {
			gpus += pod.gpus
		}
	}
	return gpus
}

// borrowed reports whether what a queue holds is given back for a request of another one. Those on the same level
// decide, below the nearest ancestor of both: the one that wants stays within its guarantee, and the other one, with
// all from there down, is beyond its own.
func (v *invariants) borrowed(queue, lender string, size int, held map[string]int) bool {
	wanting, lending := v.path(queue), v.path(lender)
	for len(wanting) > 1 && len(lending) > 1 && wanting[len(wanting)-1] == lending[len(lending)-1] {
		wanting, lending = wanting[:len(wanting)-1], lending[:len(lending)-1]
	}
	top := wanting[len(wanting)-1]
	if top == lending[len(lending)-1] || held[top]+size > v.shares[top].guaranteed {
		return false
	}
	return !slices.ContainsFunc(lending, func(name string) bool { return held[name] <= v.shares[name].guaranteed })
}
