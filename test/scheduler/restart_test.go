// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestAStandbyFinishesWhatTheLeaderBegan runs two schedulers with one lease, and kills the
// leader while it binds a gang of 64.
func TestAStandbyFinishesWhatTheLeaderBegan(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(18, machine{name: "n", gpus: 8})...)
	name := s.namespace
	leader := s.startScheduler(name, nil)
	s.waitForLease(name)
	s.startScheduler(name, nil)
	s.createPods(gang{name: "before", pods: 3, gpus: 8, scheduler: name})
	s.waitForBound(3, "before")
	s.createPods(gang{name: "waits", pods: 20, gpus: 8, scheduler: name, infeasible: true})
	s.waitForRefusal("waits", "")
	before := s.uids()
	s.createAtOnce(gang{name: "big", pods: 64, scheduler: name})
	s.eventually("the first Pods of the gang have nodes", func() (bool, string) {
		pods := s.ledger.podsOf("big")
		return countPods(pods, isHolding) > 0, fmt.Sprint(len(pods))
	})
	leader.kill()
	t.Logf("killed after %d of 64 binds", len(s.nodesOf("big")))
	s.waitForBound(64, "big")
	s.createPods(gang{name: "after", pods: 3, gpus: 8, scheduler: name})
	s.waitForBound(3, "after")
	if after := s.uids(); !contains(after, before) {
		t.Errorf("what ran before was changed: %v became %v", before, after)
	}
	s.reportWindows()
}

// TestAPodThatFailedWithoutANodeKeepsNoSchedulerFromTakingOver: no scheduler's informer ever shows it.
func TestAPodThatFailedWithoutANodeKeepsNoSchedulerFromTakingOver(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "n", gpus: 2})
	name := s.namespace
	leader := s.startScheduler(name, nil)
	s.createPods(gang{name: "before", scheduler: name})
	s.waitForBound(1, "before")
	s.createPods(gang{name: "fails", gpus: 8, scheduler: name, infeasible: true})
	s.waitForRefusal("fails", "")
	_, err := s.kube.CoreV1().Pods(name).Patch(s.Context(), "fails-0", types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	leader.kill()
	s.startScheduler(name, nil)
	s.createPods(gang{name: "after", scheduler: name})
	s.waitForBound(1, "after")
}

// contains reports whether a map contains all entries of another one.
func contains[K, V comparable](all, some map[K]V) bool {
	for key, value := range some {
		if all[key] != value {
			return false
		}
	}
	return true
}

// waitForLease waits until a scheduler holds the lease.
func (s *suite) waitForLease(name string) {
	s.Helper()
	s.eventually("a scheduler leads", func() (bool, string) {
		lease, err := s.kube.CoordinationV1().Leases("gpu-controller-system").Get(s.Context(), name, metav1.GetOptions{})
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "", fmt.Sprint(err)
	})
}

// TestKillingTheSchedulerChangesNothingThatRuns: the ledger checks that the next scheduler
// does not allocate the GPUs of running Pods again.
func TestKillingTheSchedulerChangesNothingThatRuns(t *testing.T) {
	s := newSuite(t) // not parallel: other tests would be without a scheduler, too
	s.addNodes(machines(4, machine{name: "n", gpus: 8})...)
	s.createPods(gang{name: "gang", pods: 6, gpus: 2}, gang{name: "shared", percent: 30})
	s.waitForBound(6, "gang")
	s.waitForBound(1, "shared")
	s.createPods(gang{name: "waits", pods: 3, gpus: 8, infeasible: true})
	s.waitForRefusal("waits", "")
	before := s.uids()
	for i := range 3 {
		pid, err := s.schedulerProcess()
		if err != nil {
			t.Fatal(err)
		}
		s.killScheduler()
		s.eventually("localcluster has started another scheduler", func() (bool, string) {
			next, err := s.schedulerProcess()
			return err == nil && next != pid, fmt.Sprint(next, err)
		})
		fill := gang{name: fmt.Sprintf("fill-%d", i), pods: 4}
		s.createPods(fill)
		s.waitForBound(4, fill.name)
	}
	if after := s.uids(); !contains(after, before) {
		t.Errorf("what ran before was changed: %v became %v", before, after)
	}
}

// TestAGangThatLostANodeIsEvictedInTheEnd: its remaining Pods can't go on, and there will
// be no room for the others.
func TestAGangThatLostANodeIsEvictedInTheEnd(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	name := s.namespace
	s.startScheduler(name, arguments{"partialGangTimeoutSeconds": 2})
	s.addNodes(machines(3, machine{name: "n", gpus: 4})...)
	s.createTasks(gang{name: "train", pods: 3, gpus: 4, scheduler: name})
	s.waitForBound(3, "train")
	s.loseNode("n-1")
	lost := time.Now()
	s.waitForBound(0, "train")
	t.Logf("evicted after %v", time.Since(lost).Round(time.Millisecond))
	s.waitForRefusal("train", "needs at once 3")
	s.createTasks(gang{name: "other", pods: 2, gpus: 4, scheduler: name, duration: "300ms"})
	s.waitForEnd(2, "other")
	s.addNode(machine{name: "new", gpus: 4})
	s.waitForBound(3, "train")
}

// TestTheLastPodsOfAGangComeBack: 3 of 5 have succeeded when the node of the others dies.
// Their replacements can't wait for Pods that have ended.
func TestTheLastPodsOfAGangComeBack(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machine{name: "a", gpus: 3}, machine{name: "b", gpus: 2})
	s.createTasks(gang{name: "train", pods: 5})
	s.waitForBound(5, "train")
	for _, pod := range s.ledger.podsOf("train") {
		if pod.Spec.NodeName == s.node("a") {
			s.finish(pod)
		}
	}
	s.waitForEnd(3, "train")
	s.loseNode("b")
	s.addNode(machine{name: "c", gpus: 2})
	s.eventually("the others run again", func() (bool, string) {
		pods := s.ledger.podsOf("train")
		return countPods(pods, stays) == 2, describe(pods)
	})
}

// TestDrainedAndLostNodesOfARunningGang replaces the nodes of a gang one by one.
func TestDrainedAndLostNodesOfARunningGang(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(4, machine{name: "n", gpus: 4})...)
	s.createTasks(gang{name: "train", pods: 6, gpus: 2})
	s.waitForBound(6, "train")
	for i, node := range []string{"n-0", "n-1"} {
		s.patchNode(node, `{"spec": {"unschedulable": true}}`)
		for _, pod := range s.ledger.podsWith(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == s.node(node) }) {
			if err := s.evict(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		s.eventually("all run elsewhere", func() (bool, string) {
			pods := s.ledger.podsOf("train")
			elsewhere := countPods(pods, func(pod *corev1.Pod) bool { return stays(pod) && pod.Spec.NodeName != s.node(node) })
			return elsewhere == 6, describe(pods)
		})
		s.addNode(machine{name: fmt.Sprintf("new-%d", i), gpus: 4})
	}
	s.loseNode("n-2")
	s.waitForBound(6, "train")
	nodes := map[string]bool{}
	for _, node := range s.nodesOf("train") {
		nodes[node] = true
	}
	for _, gone := range []string{"n-0", "n-1", "n-2"} {
		if nodes[gone] {
			t.Errorf("a Pod is on %s: %v", gone, maps.Keys(nodes))
		}
	}
	s.reportWindows()
}
