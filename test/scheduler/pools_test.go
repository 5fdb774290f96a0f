// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"
	"testing"
)

// TestTenantsStayInTheirPools has two tenants: one with the pool's label only, one with
// nodes that are reserved for it by a taint.
func TestTenantsStayInTheirPools(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(append(machines(2, machine{name: "open", gpus: 4, pool: "open"}),
		machines(2, machine{name: "acme", gpus: 4, pool: "acme", tenant: "acme"})...)...)
	s.createTasks(
		gang{name: "of-open", pods: 6, pool: "open"},
		gang{name: "of-acme", pods: 6, pool: "acme", tenant: "acme"},
	)
	s.waitForBound(6, "of-open", "of-acme")
	s.createTasks(
		gang{name: "uninvited", pods: 2, gpus: 2, infeasible: true}, // may run anywhere, but only acme has room
		gang{name: "unbidden", pool: "acme", infeasible: true},      // selects the pool, but does not tolerate its taint
	)
	s.waitForRefusal("uninvited", "")
	s.waitForRefusal("unbidden", "taint")
	for name, pool := range map[string]string{"of-open": "open", "of-acme": "acme"} {
		for _, node := range s.nodesOf(name) {
			if !strings.HasPrefix(node, pool+"-") {
				t.Errorf("a Pod of %s is on node %s", name, node)
			}
		}
	}
}

// TestTwoSchedulersShareNoNode runs two more schedulers, each with a pool and a lease of
// its own. Their Pods come in turn and select no pool: they must go to their scheduler's,
// which the ledger checks.
func TestTwoSchedulersShareNoNode(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	names := map[string]string{}
	for _, pool := range []string{"a", "b"} {
		names[pool] = s.namespace + "-" + pool
		s.addNodes(machines(6, machine{name: pool, gpus: 8, pool: pool})...)
		s.startScheduler(names[pool], arguments{"nodePools": []string{s.pool(pool)}})
	}
	s.addNodes(machines(2, machine{name: "nobodys", gpus: 8})...)
	var gangs []gang
	for i := range 12 {
		for _, pool := range []string{"a", "b"} {
			gangs = append(gangs, gang{
				name: fmt.Sprintf("%s-%d", pool, i), pods: 2 + i%7, gpus: 1 + i%4, scheduler: names[pool], duration: "700ms",
				labels: map[string]string{poolLabel: pool},
			})
		}
	}
	s.createPods(gangs...)
	s.createPods(gang{name: "plain-a", scheduler: names["a"], labels: map[string]string{poolLabel: "a"}, duration: "300ms"})
	for _, g := range gangs {
		s.waitForEnd(g.pods, g.name)
	}
	s.waitForEnd(1, "plain-a")
	s.reportWindows()
	s.createPods(gang{name: "nowhere", pool: "b", scheduler: names["a"], infeasible: true})
	s.waitForRefusal("nowhere", "")
}

// TestASchedulerLeavesTheGangsOfOthersAlone binds a part of a gang whose scheduler does not
// run: the running ones must not touch it.
func TestASchedulerLeavesTheGangsOfOthersAlone(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(2, machine{name: "n", gpus: 4})...)
	mine := s.namespace
	s.startScheduler(mine, arguments{"partialGangTimeoutSeconds": 1})
	s.createPods(gang{name: "theirs", pods: 3, scheduler: "somebody-else"})
	s.bind("theirs-0", "n-0")
	s.bind("theirs-1", "n-0")
	// Two of our gangs that are partial in the same way must be evicted, one after the
	// other: theirs has been safe for as long.
	for _, name := range []string{"ours", "ours-again"} {
		s.createPods(gang{name: name, pods: 3, scheduler: mine, gpus: 3})
		s.waitForRefusal(name, "needs at once")
		s.bind(name+"-0", "n-1")
		s.eventually("the partial gang of ours is evicted", func() (bool, string) {
			left := s.ledger.podsOf(name)
			return len(left) == 2, describe(left)
		})
	}
	if left := countPods(s.ledger.podsOf("theirs"), stays); left != 2 {
		t.Errorf("of 2 bound Pods of another scheduler's gang %d are left", left)
	}
}
