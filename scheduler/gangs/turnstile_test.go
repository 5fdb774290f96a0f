// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// turnsOf returns turns in which the named Pods, which are alone, are served one after the other.
func turnsOf(names ...string) map[string]float64 {
	turns := map[string]float64{}
	for i, name := range names {
		turns[name] = float64(i + 1)
	}
	return turns
}

func TestTurnsDecideWhoPassesTheTurnstile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.turnstile.size = 2
	f.SetTurns(turnsOf())
	pods := []*corev1.Pod{pod("a"), pod("b"), pod("c", prioritized(9)), pod("d")}
	for _, p := range pods {
		f.Observe(p)
	}
	f.SetTurns(turnsOf("d", "b", "c", "a"))
	if diff := cmp.Diff([]string{"d", "b"}, f.due()); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	for i, want := range []bool{false, true, false, true} {
		if passed := f.gate(pods[i]) == ""; passed != want {
			t.Errorf("Pod %s has passed: %t, want %t", pods[i].Name, passed, want)
		}
	}
	if diff := cmp.Diff([]string{}, f.due()); diff != "" {
		t.Errorf("while two have passed (-want +got):\n%s", diff)
	}
	f.seat(pods[3], 1)
	f.SetTurns(turnsOf("a", "c", "b", "d"))
	if diff := cmp.Diff([]string{"a"}, f.due()); diff != "" {
		t.Errorf("when one of them has got a place (-want +got):\n%s", diff)
	}
	f.fail(pods[1], time.Hour)
	if diff := cmp.Diff([]string{"c"}, f.due()); diff != "" {
		t.Errorf("when the other one has failed (-want +got):\n%s", diff)
	}
	if first, second := f.RankOf(pods[0], begin), f.RankOf(pods[2], begin); first.Compare(second) >= 0 {
		t.Errorf("Pod a, which has passed first, has rank %+v, Pod c %+v", first, second)
	}
}

func TestTheTurnstileForgetsThoseThatAreNotTried(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.turnstile.size = 1
	f.SetTurns(turnsOf())
	f.Observe(pod("a"))
	f.Observe(pod("b"))
	f.due()
	f.step(maxStay - time.Second)
	if diff := cmp.Diff([]string{}, f.due()); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	f.step(time.Second)
	if diff := cmp.Diff([]string{"b"}, f.due()); diff != "" {
		t.Errorf("after some time (-want +got):\n%s", diff)
	}
}

// Other plugins may keep Pods out of the queue whose turns have come.
func TestTheTurnstileHasRoomForThoseThatAreHurried(t *testing.T) {
	t.Parallel()
	f := newFixture(t, pod("promised"))
	f.turnstile.size = 2
	f.SetTurns(turnsOf())
	f.fail(pod("promised"), time.Hour)
	for i := range 4 {
		f.Observe(pod(fmt.Sprint("p", i)))
	}
	f.due()
	f.Hurry([]string{"promised"}, f.now())
	if diff := cmp.Diff([]string{"promised"}, f.due()); diff != "" {
		t.Errorf("due (-want +got):\n%s", diff)
	}
	attempt := f.Attempt("promised")
	f.Hurry([]string{"promised"}, f.now())
	f.due() // during its attempt
	f.Seat(attempt.Group, attempt.Waiting, placesFor(1), "promised", f.now())
	f.barrier(pod("promised"))
	if attempt.Group.retry.hurried || f.turnstile.isInside(attempt.Group) {
		t.Errorf("when it has a place, it is hurried: %t, inside: %t", attempt.Group.retry.hurried, f.turnstile.isInside(attempt.Group))
	}
}

// A scheduler that does not lead orders the line as well: its successor shows the estimates at once.
func TestNoneIsDueBeforeTheStart(t *testing.T) {
	t.Parallel()
	r := NewRegistry(timing)
	r.Serve(ours)
	r.Observe(pod("a"))
	r.Waiting()
	r.SetTurns(turnsOf("a"))
	if got := namesOf(r.Due(begin, 100)); len(got) > 0 {
		t.Errorf("%q are due before the start", got)
	}
	r.Start()
	if diff := cmp.Diff([]string{"a"}, namesOf(r.Due(begin, 100))); diff != "" {
		t.Errorf("due after the start (-want +got):\n%s", diff)
	}
}

func TestAMemberThatComesBackHasItsGangTriedAgain(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	f := newFixture(t, pods...)
	f.SetTurns(turnsOf())
	f.due()
	f.fail(pods[0], 0)
	f.step(timing.Again)
	f.due() // it passes again
	f.Forget(pods[1].UID)
	f.step(timing.Again)
	if got := f.due(); len(got) > 0 {
		t.Fatalf("%q are due, of a gang that is not complete", got)
	}
	f.Observe(pods[1])
	f.step(timing.Again)
	if diff := cmp.Diff([]string{"train-0"}, f.due()); diff != "" {
		t.Errorf("due (-want +got):\n%s", diff)
	}
}

func TestAPodThatStaysAfterAllHasItsGangTried(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 3, 2)
	f := newFixture(t, onNode(pods[0], "a"), pods[1])
	if actions := f.MarkTerminating([]types.UID{pods[0].UID}, true); len(actions.Activate) > 0 {
		t.Errorf("%q are activated, though their gang is about to lose a Pod", namesOf(actions.Activate))
	}
	if got := f.Attempt(pods[1].UID); got != nil {
		t.Errorf("there is something to plan for a Pod whose gang is not complete")
	}
	if diff := cmp.Diff([]string{"train-1"}, namesOf(f.MarkTerminating([]types.UID{pods[0].UID}, false).Activate)); diff != "" {
		t.Errorf("activated (-want +got):\n%s", diff)
	}
}

func TestWithoutQueuesAllPass(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.turnstile.size = 1
	f.SetTurns(turnsOf())
	f.Observe(pod("tried", prioritized(9)))
	f.due()
	f.fail(pod("tried"), 0)
	f.Observe(pod("inside", prioritized(9)))
	f.due()
	for i := range 4 {
		f.Observe(pod(fmt.Sprint("p", i), prioritized(9)))
	}
	if got := len(f.SetTurns(nil).Activate); got != 5 {
		t.Errorf("when the queues are gone, %d Pods are activated, want 5", got)
	}
	f.Observe(pod("new"))
	if why := f.gate(pod("new")); why != "" {
		t.Errorf("without queues a new Pod is held back: %s", why)
	}
	f.Attempt("inside")
	low := f.RankOf(pod("plain", unlabelled), begin)
	for _, name := range []types.UID{"inside", "p0", "tried"} {
		p := f.members[name].Pod()
		if got := f.RankOf(p, f.now()); got.Compare(low) >= 0 {
			t.Errorf("without queues Pod %s has rank %+v, after one of a lower priority", name, got)
		}
	}
}

// A label that decides which group a Pod is in makes it a new one.
func TestAChangedLabelDoesNotJumpTheQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.SetTurns(turnsOf())
	f.Observe(pod("first"))
	f.due()
	f.step(time.Second)
	f.Observe(pod("second"))
	f.due()
	queued, changed := f.now(), pod("second")
	changed.ResourceVersion, changed.Labels[v1.LabelIndex] = "2", "7"
	f.Observe(changed)
	if f.RankOf(changed, queued).Compare(f.RankOf(pod("first"), begin)) <= 0 {
		t.Error("the Pod comes before one that was queued earlier")
	}
}

func TestPodsOfTheSystemGoFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.SetTurns(turnsOf())
	f.Observe(pod("a"))
	f.due()
	later := f.now().Add(time.Minute)
	mine := f.RankOf(pod("a"), later)
	for priority, want := range map[int32]int{2_000_000_000: -1, highestUserPriority: 1, 0: 1} {
		if got := f.RankOf(pod("other", unlabelled, prioritized(priority)), later).Compare(mine); got != want {
			t.Errorf("a Pod without GPUs and of priority %d that was queued later compares %d, want %d", priority, got, want)
		}
		if got := f.RankOfOthers(priority, later).Compare(mine); got != want {
			t.Errorf("a group of priority %d that was queued later compares %d, want %d", priority, got, want)
		}
	}
}

// heapQueue is a scheduling queue as kube-scheduler has it: a heap that trusts that the order of its
// entries does not change.
type heapQueue struct {
	*fixture
	entries []queuedPod
}

type queuedPod struct {
	pod    *corev1.Pod
	queued time.Time
}

func (q *heapQueue) Len() int { return len(q.entries) }
func (q *heapQueue) Less(i, j int) bool {
	a, b := q.entries[i], q.entries[j]
	return q.RankOf(a.pod, a.queued).Compare(q.RankOf(b.pod, b.queued)) < 0
}
func (q *heapQueue) Swap(i, j int) { q.entries[i], q.entries[j] = q.entries[j], q.entries[i] }
func (q *heapQueue) Push(one any)  { q.entries = append(q.entries, one.(queuedPod)) } //nolint:forcetypeassert // only they are pushed
func (q *heapQueue) Pop() any {
	last := q.entries[len(q.entries)-1]
	q.entries = q.entries[:len(q.entries)-1]
	return last
}

// activate queues Pods that are not queued yet and may be.
func (q *heapQueue) activate(pods []*corev1.Pod) {
	for _, p := range pods {
		queued := false
		for _, one := range q.entries {
			queued = queued || one.pod.UID == p.UID
		}
		if !queued && q.gate(p) == "" {
			heap.Push(q, queuedPod{p, q.now()})
		}
	}
}

// A campaign of test/chaos found Pods that were never tried: turns changed while the Pods were in
// kube-scheduler's queue, and those of Pods without GPUs, which were tried again and again,
// always came first.
func TestNoPodIsStarvedByThoseThatAreTriedAgain(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			dice, q := rand.New(rand.NewPCG(seed, 1)), &heapQueue{fixture: newFixture(t)}
			q.SetTurns(turnsOf())
			for i := range 60 {
				heap.Push(q, queuedPod{pod(fmt.Sprint("plain-", i), unlabelled), q.now()})
				q.Observe(pod(fmt.Sprint("infeasible-", i), prioritized(int32(dice.IntN(3)))))
			}
			arrived := map[types.UID]int{}
			for step := range 4000 {
				q.step(20 * time.Millisecond)
				q.Wake(q.now())
				if step%8 == 0 {
					p := pod(fmt.Sprint("new-", step), prioritized(int32(dice.IntN(3))))
					q.activate(q.Observe(p).Activate)
					arrived[p.UID] = step
				}
				if step%25 == 0 {
					turns := map[string]float64{}
					for _, waiting := range q.Waiting() {
						turns[waiting.Key] = dice.Float64()
					}
					q.SetTurns(turns)
				}
				q.activate(q.Due(q.now(), 64))
				q.try(arrived)
				for uid, since := range arrived {
					if step-since > 2*maxInside {
						t.Fatalf("after %d attempts Pod %s was not tried, which came %d attempts ago; %d Pods are queued", step, uid, step-since, q.Len())
					}
				}
			}
		})
	}
}

// More Pods may come than can be tried.
func TestThoseThatComeDoNotStarveThoseThatWereTried(t *testing.T) {
	t.Parallel()
	q := &heapQueue{fixture: newFixture(t)}
	q.turnstile.size = 8
	q.SetTurns(turnsOf())
	first := pod("first")
	q.Observe(first)
	tries, since, arrived := 0, 0, map[types.UID]int{}
	for step := range 4000 {
		q.step(20 * time.Millisecond)
		q.Wake(q.now())
		for i := range 1 + step%2 {
			p := pod(fmt.Sprintf("new-%d-%d", step, i))
			q.Observe(p)
			arrived[p.UID] = step
		}
		q.SetTurns(turnsOf("first"))
		q.activate(q.Due(q.now(), 64))
		if q.entries[0].pod.UID == first.UID {
			tries, since = tries+1, step
		}
		q.try(arrived)
		if step-since > 100 {
			t.Fatalf("the first in the line was tried %d times in %d attempts, and not in the last %d", tries, step, step-since)
		}
	}
}

// Attempts that are in vain may take all the time that there is: more groups than can be tried become due again.
func TestThoseWithTheLastTurnsAreTriedAgainToo(t *testing.T) {
	t.Parallel()
	const others = 300
	q, turns := &heapQueue{fixture: newFixture(t)}, turnsOf()
	q.SetTurns(turns)
	for i := range others {
		p := pod(fmt.Sprint("p", i))
		turns[p.Name] = float64(i)
		q.Observe(p)
	}
	last := pod("last")
	turns[last.Name] = others
	q.Observe(last)
	tries, since := 0, 0
	for step := range 4000 {
		q.step(20 * time.Millisecond)
		q.Wake(q.now())
		q.SetTurns(turns)
		q.activate(q.Due(q.now(), 64))
		if q.entries[0].pod.UID == last.UID {
			tries, since = tries+1, step
		}
		q.try(nil)
		if step-since > 2*(others+maxInside) {
			t.Fatalf("the last of %d groups was tried %d times in %d attempts, and not in the last %d", others+1, tries, step, step-since)
		}
	}
}

// try tries the first Pod of the queue. Those that have arrived find a place.
func (q *heapQueue) try(arrived map[types.UID]int) {
	q.t.Helper()
	first := heap.Pop(q).(queuedPod) //nolint:forcetypeassert // only they are pushed
	_, feasible := arrived[first.pod.UID]
	switch {
	case feasible:
		q.Attempt(first.pod.UID)
		q.Forget(first.pod.UID)
		delete(arrived, first.pod.UID)
	case q.Member(first.pod.UID) != nil:
		q.fail(first.pod, 100*time.Millisecond)
	default:
		heap.Push(q, queuedPod{first.pod, q.now()}) // it is tried again at once
	}
}
