// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// guest is a Pod of queue guest that has run for some minutes with some GPUs.
func guest(name, gang string, gpus, minutes int, options ...func(*Held)) Held {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon.Add(-time.Duration(minutes) * time.Minute)),
	}}
	held := Held{Pod: pod, Gang: gang, Queue: "guest", Model: "h100", Amount: queueing.Amount(gpus) * queueing.GPU}
	for _, option := range options {
		option(&held)
	}
	return held
}

func important(held *Held) {
	priority := int32(100)
	held.Pod.Spec.Priority = &priority
}

func leaving(held *Held) { held.Leaving = true }

func TestWhoGivesBackBorrowedGPUs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reclaim queueing.Reclaim
		held    []Held
		asked   int
		want    string
	}{
		"those that lose the least work, until it is enough": {
			held: []Held{guest("old", "", 2, 600), guest("young", "", 2, 1), guest("middle", "", 2, 60), guest("oldest", "", 2, 900)},
			// guest may keep 4 of 8
			asked: 4, want: "middle young",
		},
		"a gang as a whole, even if it is more than is needed": {
			held:  []Held{guest("g-0", "g", 3, 1), guest("g-1", "g", 3, 1), guest("old", "", 2, 600)},
			asked: 4, want: "g-0 g-1",
		},
		"a gang with its Pods without GPUs, and with those on another model": {
			held:  []Held{guest("g-0", "g", 6, 1), guest("g-1", "g", 2, 1, on("l40s")), guest("g-2", "g", 0, 1, without), guest("old", "", 2, 600)},
			asked: 4, want: "g-0 g-1 g-2",
		},
		"nobody before the minimum run time": {
			reclaim: queueing.Reclaim{Policy: queueing.ReclaimAny, MinRuntime: time.Hour},
			held:    []Held{guest("old", "", 4, 600), guest("young", "", 4, 1)},
			asked:   4, want: "old",
		},
		"a gang of which one Pod may not be stopped stays": {
			reclaim: queueing.Reclaim{Policy: queueing.ReclaimLowerPriority},
			held:    []Held{guest("g-0", "g", 4, 1), guest("g-1", "g", 4, 1, important)},
			asked:   4, want: "",
		},
		"Pods that leave anyway count": {
			held:  []Held{guest("leaves", "", 4, 900, leaving), guest("young", "", 4, 1)},
			asked: 4, want: "",
		},
		"nobody for what is beyond the guarantee": {held: []Held{guest("a", "", 8, 1)}, asked: 5, want: ""},
		"nobody if the policy is Never": {
			reclaim: queueing.Reclaim{Policy: queueing.ReclaimNever}, held: []Held{guest("a", "", 8, 1)}, asked: 4, want: "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reclaim := test.reclaim
			if reclaim.Policy == "" {
				reclaim.Policy = queueing.ReclaimAny
			}
			guaranteed := func(gpus int) map[string]queueing.Quota {
				return map[string]queueing.Quota{queueing.AnyModel: {Guaranteed: queueing.Amount(gpus) * queueing.GPU, Limit: queueing.Unlimited}}
			}
			ledger := queueing.NewLedger(queueing.NewTree([]queueing.Queue{
				{Name: "owner", Quotas: guaranteed(4)}, {Name: "guest", Quotas: guaranteed(4), Reclaim: &reclaim},
			}))
			for _, one := range test.held {
				ledger.Add(one.Queue, one.Model, one.Amount)
			}
			asked := queueing.Amounts{"h100": queueing.Amount(test.asked) * queueing.GPU}
			queues := NewQueues(ledger, "owner", asked, 1, test.held, noon).Least()
			var got []string
			for _, one := range test.held {
				if _, may := queues.Victim(one.Pod); may {
					got = append(got, one.Pod.Name)
				}
			}
			slices.Sort(got)
			if strings.Join(got, " ") != test.want {
				t.Errorf("may be stopped: %v, want %s", got, test.want)
			}
		})
	}
}

// A launcher counts for the queue of the workers that it launches, whatever its own labels say.
func TestPodsWithoutGPUsAreStoppedWithTheirGangs(t *testing.T) {
	t.Parallel()
	ledger := queueing.NewLedger(queueing.NewTree([]queueing.Queue{{Name: "owner"}}))
	launcher, worker, other := guest("launcher", "g", 0, 1, without), guest("worker", "g", 1, 1, of("owner")), guest("other", "h", 0, 1)
	held := WithCompanions([]Held{worker}, func(string) []*corev1.Pod { return []*corev1.Pod{launcher.Pod, worker.Pod} })
	if len(held) != 2 {
		t.Fatalf("there are %d Pods, want the worker and the launcher", len(held))
	}
	queues := NewQueues(ledger, "owner", queueing.Amounts{"h100": queueing.GPU}, 100, held, noon)
	for pod, want := range map[*corev1.Pod]bool{launcher.Pod: true, worker.Pod: true, other.Pod: false} {
		if _, got := queues.Victim(pod); got != want {
			t.Errorf("%s may be preempted: %t, want %t", pod.Name, got, want)
		}
	}
}

func TestPriorityCountsOnlyInTheSameQueue(t *testing.T) {
	t.Parallel()
	ledger := queueing.NewLedger(queueing.NewTree([]queueing.Queue{{Name: "owner"}, {Name: "guest"}}))
	own, other := guest("own", "", 1, 1), guest("other", "", 1, 1)
	own.Queue = "owner"
	held := []Held{own, other}
	asked := queueing.Amounts{"h100": queueing.GPU}
	for priority, want := range map[int32][2]bool{0: {}, 100: {true, false}, SystemCritical: {true, true}} {
		queues := NewQueues(ledger, "owner", asked, priority, held, noon)
		_, mayOwn := queues.Victim(own.Pod)
		_, mayOther := queues.Victim(other.Pod)
		if got := [2]bool{mayOwn, mayOther}; got != want {
			t.Errorf("with priority %d, Pods of the own and another queue may be preempted: %v, want %v", priority, got, want)
		}
	}
}

func TestNoQueueLosesMoreThanItHasBorrowed(t *testing.T) {
	t.Parallel()
	ledger := queueing.NewLedger(queueing.NewTree([]queueing.Queue{
		{Name: "owner", Quotas: map[string]queueing.Quota{queueing.AnyModel: {Guaranteed: 8 * queueing.GPU, Limit: queueing.Unlimited}}},
		{Name: "guest", Quotas: map[string]queueing.Quota{queueing.AnyModel: {Guaranteed: 8 * queueing.GPU, Limit: queueing.Unlimited}}},
	}))
	held := []Held{guest("a", "", 4, 1), guest("b", "", 4, 2), guest("c", "", 4, 3), guest("large", "", 8, 600)}
	for _, one := range held { // guest has borrowed 12
		ledger.Add(one.Queue, one.Model, one.Amount)
	}
	queues := NewQueues(ledger, "owner", queueing.Amounts{"h100": 8 * queueing.GPU}, 1, held, noon)
	tests := map[string]struct {
		victims []int
		want    bool
	}{
		"nobody":                        {nil, true},
		"any of them alone":             {[]int{3}, true},
		"just what it has borrowed":     {[]int{0, 1, 2}, true},
		"the last one is too large":     {[]int{0, 3}, true},
		"one more than would be enough": {[]int{0, 1, 2, 3}, false},
	}
	for name, test := range tests {
		var victims []*corev1.Pod
		for _, index := range test.victims {
			victims = append(victims, held[index].Pod)
		}
		if got := queues.Permits(victims); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
