// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	stressGangs = flag.Int("stress.gangs", 60, "how many gangs the stress test runs")
	stressNodes = flag.Int("stress.nodes", 60, "on how many nodes")
	stressSeed  = flag.Uint64("stress.seed", 1, "what they are, and what happens to them")
)

// partialTimeout is partialGangTimeoutSeconds in the stress tests.
const partialTimeout = 10 * time.Second

// TestGangsUnderStress runs random gangs while nodes come and go and the scheduler is
// killed again and again. The ledger checks that no GPU is allocated twice and that no
// infeasible gang holds anything; every feasible gang must end, none may run partially
// for longer than its binds take or its losses explain, and in the end every GPU must be
// free.
func TestGangsUnderStress(t *testing.T) {
	stress(t, "stress", *stressGangs, *stressNodes)
}

// TestTwoSchedulersUnderStress has two pools with a scheduler each. Both get killed.
func TestTwoSchedulersUnderStress(t *testing.T) {
	stress(t, "stress-pools", *stressGangs/2, *stressNodes/2, "a", "b")
}

// stress runs gangs on nodes, with one scheduler or with one for each pool.
func stress(t *testing.T, name string, gangs, nodes int, pools ...string) {
	t.Helper()
	change := arguments{"partialGangTimeoutSeconds": partialTimeout.Seconds()}
	s := newSuiteIn(t, startStressCluster(t, name, nodes, change, pools))
	random := rand.New(rand.NewPCG(*stressSeed, 0))
	w := &workload{suite: s, perPool: nodes / max(1, len(pools)), pools: pools, bare: map[string]*job{}}
	w.jobs = randomJobs(random, gangs, w.perPool)
	for i := range w.jobs {
		w.assign(&w.jobs[i].gang, i)
	}
	m := s.newMonkey(rand.New(rand.NewPCG(*stressSeed, 1)), s.killScheduler)
	if len(pools) > 1 {
		m.kill = s.runSecondScheduler(pools[1], change)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	chaosCtx, endChaos := context.WithCancel(ctx)
	defer endChaos()
	var busy, chaos sync.WaitGroup
	busy.Go(func() { w.keepAlive(ctx) })
	busy.Go(func() { m.guard(ctx) })
	chaos.Go(func() { m.run(chaosCtx, 20*time.Second/time.Duration(len(m.nodes))) })
	begin := time.Now()
	if err := w.submit(ctx, random, max(15*time.Second, time.Duration(gangs)*150*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	w.cancels.Wait()
	t.Logf("%d gangs came within %v", len(w.jobs), time.Since(begin).Round(time.Second))
	endChaos()
	chaos.Wait()
	kills := s.ledger.countKills()
	t.Logf("what happened: the scheduler was killed %d times, %s", kills, m)
	if kills < 2 {
		t.Errorf("the scheduler was killed only %d times: this proves nothing", kills)
	}
	defer w.checkWindows()
	w.waitForTheEnd(begin)
	m.waitUntilMended()
	w.fillTheCluster()
	cancel()
	busy.Wait()
}

// startStressCluster starts a cluster with nodes of all models, in every pool. Its
// scheduler serves the first pool.
func startStressCluster(t *testing.T, name string, nodes int, change arguments, pools []string) *testCluster {
	t.Helper()
	config, err := schedulerConfig(change.in(pools[:min(1, len(pools))]...))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--scheduler-config=" + writeConfig(t, config)}
	for _, model := range models {
		group := fmt.Sprintf("model=%s,gpus=%d,gpu-memory=80000Mi,nodes-per-leaf=%d", model.name, model.gpus, nodesPerLeaf)
		if len(pools) == 0 {
			args = append(args, fmt.Sprintf("--nodes=name=%s,count=%d,%s", model.name, model.count(nodes), group))
		}
		for _, pool := range pools {
			args = append(args, fmt.Sprintf("--nodes=name=%s-%s,pool=%s,count=%d,%s", model.name, pool, pool, model.count(nodes/len(pools)), group))
		}
	}
	c, err := startCluster(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	c.stopAfter(t)
	return c
}

// in adds node pools to the arguments, if there are any.
func (a arguments) in(pools ...string) arguments {
	more := maps.Clone(a)
	if len(pools) > 0 {
		more["nodePools"] = pools
	}
	return more
}

// assign sets the scheduler of a gang in a test with several pools.
func (w *workload) assign(g *gang, i int) {
	if len(w.pools) == 0 {
		return
	}
	pool := w.pools[i%len(w.pools)]
	g.labels = map[string]string{poolLabel: pool}
	if pool != w.pools[0] {
		g.scheduler = secondScheduler
	}
}

// secondScheduler is the name of the scheduler of the second pool.
const secondScheduler = "gpu-scheduler-second"

// runSecondScheduler starts the scheduler of the second pool and returns a function that
// kills it or that of the cluster, in turn.
func (s *suite) runSecondScheduler(pool string, change arguments) (kill func()) {
	s.Helper()
	running := s.startScheduler(secondScheduler, change.in(pool))
	turn := 0
	return func() {
		if turn++; turn%2 == 0 {
			s.killScheduler()
			return
		}
		running.kill()
		running = s.startScheduler(secondScheduler, change.in(pool))
	}
}

// killScheduler kills the cluster's own scheduler with SIGKILL, if it is running;
// localcluster restarts it.
func (s *suite) killScheduler() {
	s.Helper()
	pid, err := s.schedulerProcess()
	if err != nil {
		return // it is about to be started
	}
	s.ledger.killed(time.Now())
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		s.Errorf("killing the scheduler: %v", err)
	}
}
