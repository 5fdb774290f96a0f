// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// bindLimit is how long the binds of one gang, 64 at most, may take on a machine that
	// does many other things at once.
	bindLimit = 15 * time.Second
	// recoverLimit is how long a gang may take to be whole again or gone after the
	// scheduler was killed or it has lost Pods: the scheduler has to restart (5 s at
	// most), and the gang may have to wait for room and be evicted in the end.
	recoverLimit = 2*partialTimeout + 2*bindLimit
)

// waitForTheEnd waits until all feasible gangs have ended. The infeasible ones must still
// exist, report why they wait, and hold nothing.
func (w *workload) waitForTheEnd(begin time.Time) {
	w.Helper()
	w.whileThereIsProgress("all gangs that can run have ended", w.ledger.progress, func() (bool, string) {
		left := w.unfinished()
		return len(left) == 0, fmt.Sprintf("%d have not: %s", len(left), strings.Join(left[:min(len(left), 20)], "\n"))
	})
	w.Logf("all that could run have ended after %v; %d Pods were bound", time.Since(begin).Round(time.Second), w.ledger.bound())
	w.eventually("no GPU is held", func() (bool, string) {
		return w.ledger.heldCards() == 0, fmt.Sprintf("%d are: %s", w.ledger.heldCards(), describe(w.ledger.podsWith(isHolding)))
	})
	infeasible := 0
	for i := range w.jobs {
		j := &w.jobs[i]
		if !j.infeasible || j.cancelled {
			continue
		}
		infeasible++
		message := w.waitForRefusal(j.name, "")
		if !j.bare {
			w.eventually("GPUTask "+j.name+" says why it waits", func() (bool, string) {
				told := w.getTask(j.name).Status.Message
				return strings.Contains(told, "GPU"), fmt.Sprintf("%q, its Pod %q", told, message)
			})
		}
	}
	w.Logf("%d infeasible gangs say why they wait", infeasible)
}

// checkWindows checks for how long gangs ran partially, and logs how long they waited.
func (w *workload) checkWindows() {
	w.Helper()
	longest := map[string]window{}
	all := w.ledger.partial(time.Now())
	for _, one := range all {
		kind, limit := "starting undisturbed", bindLimit
		if one.killed || one.lost || !one.growing {
			kind, limit = "disturbed", recoverLimit
		}
		if one.elapsed > limit {
			w.Errorf("%s, more than %v", &one, limit)
		}
		if known, found := longest[kind]; !found || one.length() > known.length() {
			longest[kind] = one
		}
	}
	for kind, one := range longest {
		w.Logf("of %d partial windows the longest %s: %s", len(all), kind, &one)
	}
	var waits, binds []time.Duration
	var last *job
	for i := range w.jobs {
		if r := w.ledger.record(w.jobs[i].name); !r.whole.IsZero() {
			waits, binds = append(waits, r.whole.Sub(r.created)), append(binds, r.whole.Sub(r.firstBind))
			if waits[len(waits)-1] == slices.Max(waits) {
				last = &w.jobs[i]
			}
		}
	}
	if last != nil {
		w.Logf("the one that waited the longest: %+v", last.gang)
	}
	w.Logf("from its first Pod until a gang had its nodes: %s", quantiles(waits))
	w.Logf("from its first bind until a gang had its nodes: %s", quantiles(binds))
}

func quantiles(list []time.Duration) string {
	if len(list) == 0 {
		return "none"
	}
	slices.Sort(list)
	at := func(share float64) time.Duration {
		return list[int(share*float64(len(list)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("median %v, 95 %% %v, at most %v (%d gangs)", at(0.5), at(0.95), at(1), len(list))
}

// fillTheCluster starts a gang for each model and in each pool that takes every GPU: none
// may have leaked.
func (w *workload) fillTheCluster() {
	w.Helper()
	begin := time.Now()
	for _, model := range models {
		for i := range max(1, len(w.pools)) {
			nodes := model.count(w.perPool)
			all := gang{name: fmt.Sprintf("all-%s-%d", model.name, i), pods: nodes, gpus: model.gpus, model: model.name, duration: "1s", priority: high}
			w.assign(&all, i)
			w.createAtOnce(all)
			w.waitForEnd(nodes, all.name)
		}
	}
	w.Logf("gangs that take all GPUs of the cluster ran within %v", time.Since(begin).Round(time.Millisecond))
}
