// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	stressGangs = flag.Int("stress.gangs", 100, "how many gangs the stress test runs")
	stressNodes = flag.Int("stress.nodes", 100, "on how many nodes")
	stressSeed  = flag.Uint64("stress.seed", 1, "what they are, and what happens to them")
)

const (
	// partialTimeout is partialGangTimeoutSeconds in the stress test.
	partialTimeout = 10 * time.Second
	// bindLimit is how long the binds of one gang may take, at most 64, on a machine
	// that does many other things at once.
	bindLimit = 15 * time.Second
	// recoverLimit is how long a gang may take to be whole again or gone after the
	// scheduler was killed or it has lost Pods: the scheduler has to come back (5 s at
	// most), the gang may have to wait for room and be evicted in the end.
	recoverLimit = 2*partialTimeout + 2*bindLimit
)

// TestGangsUnderStress runs random gangs while nodes come and go and the scheduler
// is killed again and again. The ledger sees to it that no GPU is given twice and
// that nothing infeasible holds anything; every gang that can run has to come to
// its end, none may run in part for longer than its binds take or its loss explains,
// and in the end every GPU must be free.
func TestGangsUnderStress(t *testing.T) {
	args := []string{"--pod-duration=1s"}
	for _, model := range models {
		args = append(args, fmt.Sprintf("--nodes=name=%s,model=%s,count=%d,gpus=%d,gpu-memory=80000Mi,nodes-per-leaf=%d",
			model.name, model.name, model.count(*stressNodes), model.gpus, nodesPerLeaf))
	}
	config, err := schedulerConfig(arguments{"partialGangTimeoutSeconds": partialTimeout.Seconds(), "starvationSeconds": 10})
	if err != nil {
		t.Fatal(err)
	}
	c, err := startCluster("stress", append(args, "--scheduler-config="+writeConfig(t, config))...)
	if err != nil {
		t.Fatal(err)
	}
	s := newSuiteIn(t, c)
	random := rand.New(rand.NewPCG(*stressSeed, 0))
	w := &workload{suite: s, jobs: randomJobs(random, *stressGangs, *stressNodes), bare: map[string]*job{}}
	m := s.newMonkey(rand.New(rand.NewPCG(*stressSeed, 1)), s.killAnyScheduler)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	raging, calm := context.WithCancel(ctx)
	var busy sync.WaitGroup
	busy.Go(func() { w.keepAlive(ctx) })
	var rage sync.WaitGroup
	rage.Go(func() { m.rage(raging, 20*time.Second/time.Duration(len(m.nodes))) })
	begin := time.Now()
	if err := w.submit(ctx, random, time.Duration(*stressGangs)*150*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	w.cancels.Wait()
	t.Logf("%d gangs came within %v", len(w.jobs), time.Since(begin).Round(time.Second))
	calm()
	rage.Wait()
	t.Logf("what happened: %s", m)
	defer w.checkWindows()
	w.waitForTheEnd(begin)
	w.fillTheCluster()
	cancel()
	busy.Wait()
}

// killAnyScheduler kills the cluster's scheduler if it runs just now.
func (s *suite) killAnyScheduler() error {
	pid, err := s.schedulerProcess()
	if err != nil {
		return nil //nolint:nilerr // it is about to be started
	}
	s.ledger.killed(time.Now())
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH { //nolint:errorlint // a number
		return err
	}
	return nil
}

// waitForTheEnd waits until all gangs that can run have ended. What can't is still
// there, says why, and holds nothing.
func (w *workload) waitForTheEnd(begin time.Time) {
	w.Helper()
	w.within(time.Duration(len(w.jobs))*time.Second+time.Minute, "all gangs that can run have ended", func() (bool, string) {
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

// bound is how many Pods got a node so far.
func (l *ledger) bound() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.binds
}

// checkWindows checks for how long gangs ran in part, and reports how long they
// waited.
func (w *workload) checkWindows() {
	w.Helper()
	longest := map[string]window{}
	all := w.ledger.partial(time.Now())
	for _, one := range all {
		kind, limit := "starting undisturbed", bindLimit
		if one.killed || one.lost || !one.growing {
			kind, limit = "disturbed", recoverLimit
		}
		if one.length() > limit {
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
	for i := range w.jobs {
		if r := w.ledger.record(w.jobs[i].name); !r.whole.IsZero() {
			waits, binds = append(waits, r.whole.Sub(r.created)), append(binds, r.whole.Sub(r.firstBind))
		}
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

// fillTheCluster starts a gang on each model that takes every GPU there is: nothing
// may have been forgotten as in use.
func (w *workload) fillTheCluster() {
	w.Helper()
	begin := time.Now()
	for _, model := range models {
		nodes := model.count(*stressNodes)
		w.createAtOnce(gang{name: "all-" + model.name, pods: nodes, min: nodes, gpus: model.gpus, model: model.name, duration: "1s", priority: high})
		w.waitForEnd(nodes, "all-"+model.name)
	}
	w.Logf("gangs that take all GPUs of the cluster ran within %v", time.Since(begin).Round(time.Millisecond))
}
