// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/test/proxy"
)

// only applies a treatment to the Binding of one Pod; all others are forwarded.
func only(pod string, how treatment) func(string) treatment {
	return func(other string) treatment {
		if other == pod {
			return how
		}
		return forward
	}
}

// nodeOfPod returns the node of a Pod, as read from the API server.
func (s *suite) nodeOfPod(name string) string {
	s.Helper()
	pod, err := s.kube.CoreV1().Pods(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return pod.Spec.NodeName
}

// comeToNothing waits until Pod urgent has the only GPU, forwards the Binding of Pod late,
// and expects it to be rejected: late stays pending.
func (b *bindings) comeToNothing() {
	b.Helper()
	b.waitForBound(1, "urgent")
	if accepted := b.release(); accepted > 0 {
		b.Error("the Binding that was kept was accepted")
	}
	if node := b.nodeOfPod("late-0"); node != "" {
		b.Errorf("the Pod got node %s, whose only GPU another Pod has", node)
	}
	b.deletePod("urgent-0")
	b.waitForBound(1, "late")
}

// TestABindingOfAKilledSchedulerComesToNothing kills a scheduler while its Binding of one
// Pod is in flight, and forwards it when the next scheduler has allocated the GPU to
// another Pod.
func TestABindingOfAKilledSchedulerComesToNothing(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "n", gpus: 1})
	name := s.namespace
	b := s.keepBindings(only("late-0", hold))
	first := s.startSchedulerThrough(b.kubeconfig, name)
	s.createPods(gang{name: "late", priority: low, scheduler: name})
	b.waitFor("late-0")
	first.kill()
	s.createPods(gang{name: "urgent", priority: high, scheduler: name})
	s.startScheduler(name, nil)
	b.comeToNothing()
}

// TestABindingThatTimedOutComesToNothing: the scheduler sees a Binding time out, and the
// API server receives it later.
func TestABindingThatTimedOutComesToNothing(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "n", gpus: 1})
	name := s.namespace
	b := s.keepBindings(only("late-0", timeOut))
	s.startSchedulerThrough(b.kubeconfig, name)
	s.createPods(gang{name: "late", priority: low, scheduler: name})
	b.waitFor("late-0")
	s.createPods(gang{name: "urgent", priority: high, scheduler: name})
	b.comeToNothing()
}

// TestABindingWhoseAnswerWasLostCounts: the scheduler sees a Binding time out, but the Pod
// is bound.
func TestABindingWhoseAnswerWasLostCounts(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "n", gpus: 2})
	name := s.namespace
	b := s.keepBindings(only("first-0", loseAnswer))
	s.startSchedulerThrough(b.kubeconfig, name)
	s.createPods(gang{name: "first", scheduler: name})
	b.waitFor("first-0")
	s.createPods(gang{name: "second", scheduler: name})
	s.waitForBound(1, "first", "second")
}

// TestALeaderThatHangsBeyondItsLease stops a leader while its Binding of one Pod is in
// flight, has another scheduler take over, and lets the first one continue. Whatever it
// still does then, no GPU is allocated twice, and it exits.
func TestALeaderThatHangsBeyondItsLease(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(4, machine{name: "n", gpus: 2})...)
	name := s.namespace
	b := s.keepBindings(only("late-0", hold))
	first := s.startSchedulerThrough(b.kubeconfig, name)
	s.createPods(gang{name: "fill", pods: 3, min: 1, gpus: 2, priority: high, scheduler: name})
	s.waitForBound(3, "fill")
	s.createPods(gang{name: "late", gpus: 2, priority: low, scheduler: name})
	b.waitFor("late-0")
	first.signal(syscall.SIGSTOP)
	second := s.startScheduler(name, nil)
	s.createPods(gang{name: "urgent", gpus: 2, priority: high, scheduler: name})
	s.waitForBound(1, "urgent")
	// The one that hangs sees these as soon as it continues.
	s.createPods(gang{name: "small", pods: 8, min: 1, scheduler: name})
	s.deleteGang("fill")
	first.signal(syscall.SIGCONT)
	if accepted := b.release(); accepted > 0 {
		t.Error("the Binding of the scheduler that has hung was accepted")
	}
	first.waitForEnd()
	if !strings.Contains(first.log.String(), "eaderelection lost") {
		t.Error("the scheduler that has hung does not say that it has lost its lease")
	}
	s.eventually("the other scheduler has given all GPUs that are left", func() (bool, string) {
		bound := countPods(s.ledger.podsOf("small"), isHolding) + 2*countPods(s.ledger.podsOf("late"), isHolding)
		return bound == 6, fmt.Sprint(bound)
	})
	second.stop()
}

// TestTwoSchedulersByMistake starts the same scheduler twice, both without leader
// election: one of them works, the other one waits until it is needed.
func TestTwoSchedulersByMistake(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(4, machine{name: "n", gpus: 4})...)
	name := s.namespace
	start := func() *process {
		config := s.schedulerConfigOf(packing, name, nil)
		object(config["leaderElection"])["leaderElect"] = false
		return s.startSchedulerWith(config)
	}
	first, second := start(), start()
	for i := range 6 {
		round := fmt.Sprintf("round-%d", i)
		s.createAtOnce(gang{name: round, pods: 16, min: 1, scheduler: name})
		s.waitForBound(16, round)
		switch i {
		case 2:
			first.kill()
			first = start()
		case 4:
			second.kill()
		}
		s.deleteGang(round)
	}
	first.stop()
}

// TestBindingsWaitForALeaseThatIsRenewedTooLate lets a scheduler without leader election miss the renewal of its lease,
// as with an API server that is overloaded. In a local cluster with 5,000 nodes each Pod was then placed a hundred
// times, and all nodes were taken for broken ones.
func TestBindingsWaitForALeaseThatIsRenewedTooLate(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(4, machine{name: "n", gpus: 4})...)
	name := s.namespace
	var cut atomic.Bool
	var bindings, renewals atomic.Int32 // that were sent while the lease could not be renewed
	config := s.schedulerConfigOf(packing, name, nil)
	object(config["leaderElection"])["leaderElect"] = false
	object(config["clientConnection"])["kubeconfig"] = proxy.Start(t, s.schedulerKubeconfig(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case cut.Load() && strings.Contains(r.URL.Path, "/leases/"):
				renewals.Add(1)
				proxy.Fail(w, http.StatusServiceUnavailable, "ServiceUnavailable")
				return
			case cut.Load() && strings.HasSuffix(r.URL.Path, "/binding"):
				bindings.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	})
	scheduler := s.startSchedulerWith(config)
	s.createPods(gang{name: "first", pods: 4, scheduler: name})
	s.waitForBound(4, "first")
	cut.Store(true)
	s.eventually("the lease is lost", func() (bool, string) {
		return strings.Contains(scheduler.log.String(), "ailed to renew lease"), ""
	})
	s.createPods(gang{name: "late", pods: 8, scheduler: name})
	const enough = 6 // 3 s: in that time each Pod would have failed several times
	begin := renewals.Load()
	s.eventually("the scheduler had time to place the Pods", func() (bool, string) { return renewals.Load() >= begin+enough, "" })
	cut.Store(false)
	s.waitForBound(8, "late")
	if sent := bindings.Load(); sent > 0 {
		t.Errorf("%d Bindings were sent without the lease", sent)
	}
	events, err := s.kube.CoreV1().Events(s.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedScheduling"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events.Items {
		// The first ones may have come before the scheduler had read the GPUQueues.
		if name := events.Items[i].InvolvedObject.Name; strings.HasPrefix(name, "late-") {
			t.Errorf("Event of %s: %s", name, events.Items[i].Message)
		}
	}
	scheduler.stop()
}

// TestBindingsInAnyOrder runs small gangs while Bindings are held back, sent twice,
// answered wrongly and forwarded at any later time, and the scheduler is killed after it
// has done something.
func TestBindingsInAnyOrder(t *testing.T) {
	t.Parallel()
	const gangs, atATime, kills = 50, 5, 5
	s := newSuite(t)
	s.addNodes(machines(4, machine{name: "n", gpus: 4})...)
	name := s.namespace
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(*stressSeed, 5))
	dice := func(sides int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(sides)
	}
	b := s.keepBindings(func(string) treatment {
		return []treatment{forward, forward, forward, hold, timeOut, loseAnswer, duplicate}[dice(7)]
	})
	b.carryOutLater(func() time.Duration { return time.Duration(dice(3000)) * time.Millisecond })
	running := s.startSchedulerThrough(b.kubeconfig, name)
	names, sizes := []string{}, []int{}
	endFirst := func() {
		s.waitForBound(sizes[0], names[0])
		s.deleteGang(names[0])
		names, sizes = names[1:], sizes[1:]
	}
	for i := range gangs {
		g := gang{name: fmt.Sprintf("g-%02d", i), pods: 1 + dice(4), scheduler: name}
		if dice(3) == 0 {
			g.percent = 10 * (1 + dice(9))
		}
		s.createPods(g)
		names, sizes = append(names, g.name), append(sizes, g.pods)
		if len(names) == atATime {
			endFirst()
		}
		if i%(gangs/kills) == gangs/kills-1 {
			running.kill()
			running = s.startSchedulerThrough(b.kubeconfig, name)
		}
	}
	for len(names) > 0 {
		endFirst()
	}
	running.stop()
}
