// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package preemption

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/disruption"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// family is two siblings that are guaranteed 8 GPUs each, of a parent that may hold 16, and a stranger. The guest's
// reclaim may differ.
func family(reclaim *queueing.Reclaim) []queueing.Queue {
	quota := func(guaranteed int, limit queueing.Amount) map[string]queueing.Quota {
		return map[string]queueing.Quota{queueing.AnyModel: {Guaranteed: queueing.Amount(guaranteed) * queueing.GPU, Limit: limit}}
	}
	return []queueing.Queue{
		{Name: "parent", Quotas: quota(16, 16*queueing.GPU)},
		{Name: "owner", Parent: "parent", Quotas: quota(8, queueing.Unlimited)},
		{Name: "guest", Parent: "parent", Quotas: quota(8, queueing.Unlimited), Reclaim: reclaim},
		{Name: "stranger"},
	}
}

// without is a Pod that holds no GPUs.
func without(held *Held) { held.Model = "" }

func on(model string) func(*Held) { return func(held *Held) { held.Model = model } }

func of(queue string) func(*Held) { return func(held *Held) { held.Queue = queue } }

func TestAFullParentGetsRoomFromBelowOnly(t *testing.T) {
	t.Parallel()
	guests := func(sizes ...int) (list []Held) {
		for i, size := range sizes {
			list = append(list, guest(string(rune('a'+i)), "", size, i+1))
		}
		return list
	}
	tests := map[string]struct {
		reclaim *queueing.Reclaim
		held    []Held
		asked   int
		// victims leave for the room, protected can't leave now, and spare may leave of a gang.
		victims, protected string
		spare              int
		budget             bool
		// stopped are those who leave beside the victims; possible is "never" if that is not enough.
		stopped string
	}{
		"there is room elsewhere: those that lose the least work": {
			held: guests(4, 4, 4, 4), asked: 4, stopped: "a"},
		"only what is missing": {
			held: append(guests(4, 4, 4), guest("own", "", 2, 1, of("owner"))), asked: 4, stopped: "a"},
		"nobody if nothing is missing": {
			held: guests(4, 4, 4), asked: 4, stopped: ""},
		"nobody beside victims that are enough": {
			held: guests(4, 4, 4, 4), asked: 4, victims: "d", stopped: ""},
		"others beside victims that are too few": {
			held: guests(4, 4, 4, 4), asked: 8, victims: "c", stopped: "a"},
		"nobody beside those who leave anyway": {
			held: append(guests(4, 4, 4), guest("leaves", "", 4, 1, leaving)), asked: 4, stopped: ""},
		"not those of other parents, whatever they have borrowed": {
			held: append(guests(8, 8), guest("other", "", 8, 0, of("stranger"))), asked: 8, stopped: "a"},
		"never beyond the own guarantee": {
			held: append(guests(8, 4), guest("own", "", 4, 1, of("owner"))), asked: 6, stopped: "never"},
		"never more than may ever be held": {
			held: guests(8, 8), asked: 17, stopped: "never"},
		"never if the siblings may not be stopped": {
			reclaim: &queueing.Reclaim{Policy: queueing.ReclaimNever}, held: guests(8, 8), asked: 4, stopped: "never"},
		"nobody who is being bound": {
			held: guests(4, 4, 4, 4), asked: 4, protected: "a", stopped: "b"},
		"nobody whose budget is used up": {
			held: guests(4, 4, 4, 4), asked: 4, budget: true, stopped: "never"},
		"a gang as a whole": {
			held: append(guests(8), guest("g0", "g", 4, 0), guest("g1", "g", 4, 0)), asked: 4, stopped: "g0 g1"},
		"a gang with its Pods that hold no GPUs": {
			held: append(guests(8), guest("g0", "g", 4, 0), guest("g1", "g", 4, 0), guest("launcher", "g", 0, 0, without)), asked: 4, stopped: "g0 g1 launcher"},
		"a gang with its Pods on another model": {
			held: append(guests(8), guest("g0", "g", 8, 0), guest("g1", "g", 1, 0, on("l40s"))), asked: 4, stopped: "g0 g1"},
		"nobody of a gang of which one Pod is being bound": {
			held: append(guests(4, 8), guest("g0", "g", 4, 0), guest("launcher", "g", 0, 0, without)), asked: 4, protected: "launcher", stopped: "a"},
		"or the members that it can do without": {
			held: append(guests(8), guest("g0", "g", 2, 0), guest("g1", "g", 2, 0), guest("g2", "g", 2, 0), guest("g3", "g", 2, 0)), asked: 4, spare: 3, stopped: "g0 g1"},
		"as a whole if these are too few": {
			held: append(guests(8), guest("g0", "g", 2, 0), guest("g1", "g", 2, 0), guest("g2", "g", 2, 0), guest("g3", "g", 2, 0)), asked: 4, spare: 1, stopped: "g0 g1 g2 g3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger := queueing.NewLedger(queueing.NewTree(family(test.reclaim)))
			byName := map[string]*corev1.Pod{}
			var victims []*corev1.Pod
			for _, one := range test.held {
				ledger.Add(one.Queue, one.Model, one.Amount)
				byName[one.Pod.Name] = one.Pod
				if slices.Contains(strings.Fields(test.victims), one.Pod.Name) {
					victims = append(victims, one.Pod)
				}
			}
			cluster := &Cluster{
				Holder: func(name string) (Holder, bool) {
					return Holder{Pod: byName[name], Protected: name == test.protected}, true
				},
				Spare: func(string) int { return test.spare }, Budgets: disruption.NewBudgets(nil),
			}
			if test.budget {
				cluster.Budgets = disruption.NewBudgets([]*policyv1.PodDisruptionBudget{{Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}})
			}
			queues := NewQueues(ledger, "owner", queueing.Amounts{"h100": queueing.Amount(test.asked) * queueing.GPU}, 1, test.held, noon)
			more, enough := cluster.Complete(queues, victims)
			got := podNames(more)
			if !enough {
				got = "never"
			}
			if got != test.stopped {
				t.Errorf("stopped: %q, want %q", got, test.stopped)
			}
			if !queues.Permits(append(victims, more...)) {
				t.Error("a queue would lose more than it has borrowed")
			}
		})
	}
}

func podNames(pods []*corev1.Pod) string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestVictimsAreBelowAFullParent(t *testing.T) {
	t.Parallel()
	held := []Held{guest("sibling", "", 12, 1), guest("other", "", 8, 1, of("stranger")), guest("own", "", 4, 1, of("owner"))}
	ledger := queueing.NewLedger(queueing.NewTree(family(nil)))
	for _, one := range held {
		ledger.Add(one.Queue, one.Model, one.Amount)
	}
	for priority, want := range map[int32]string{0: "sibling", 1: "own sibling", SystemCritical: "own sibling"} {
		queues := NewQueues(ledger, "owner", queueing.Amounts{"h100": 4 * queueing.GPU}, priority, held, noon)
		var may []*corev1.Pod
		for _, one := range held {
			if _, victim := queues.Victim(one.Pod); victim {
				may = append(may, one.Pod)
			}
		}
		if got := podNames(may); got != want {
			t.Errorf("with priority %d, %q may be stopped, want %q", priority, got, want)
		}
	}
}
