// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

var (
	rescheduleSeconds = flag.Int("reschedule.seconds", 40, "how long tasks come and things happen to them in the stress test of rescheduling")
	rescheduleSeed    = flag.Uint64("reschedule.seed", 1, "what they are, and what happens to them")
)

const (
	stressedLeaves, stressedNodes, stressedGPUs = 3, 4, 8
	// fullness is the part of the GPUs that small tasks request at any time: so few are
	// free that a task of a whole node rarely fits, and so many that room can be made.
	fullness = 0.7
)

// TestReschedulingUnderStress creates random tasks, and now and then a big one that fits
// only if others move, while the controller and the scheduler are killed again and again,
// nodes are cordoned, stop reporting or are lost, and plans are aborted. Every task must
// end, immovable tasks must never be moved, every move must be counted once, and no plan
// may leave anything behind.
func TestReschedulingUnderStress(t *testing.T) {
	t.Parallel()
	w := newStressState(t)
	begin := time.Now()
	w.every(2000, 5000, w.killOne)
	w.every(2000, 6000, w.disturb)
	w.every(6000, 12000, w.abortOne)
	w.every(1000, 2000, w.submitBig)
	period := time.Duration(*rescheduleSeconds) * time.Second
	for w.goesOn(time.Since(begin), period) {
		w.doWhatIsDue(time.Now())
		w.fill()
		w.letPass(100 * time.Millisecond)
	}
	w.calmDown()
	t.Logf("%d tasks came; what happened: %s", len(w.all), w.happened())
	w.checkEnds()
	t.Logf("all have ended after %v", time.Since(begin).Round(time.Second))
	w.checkSettled()
	w.checkMoves()
	w.checkPartial()
	w.reportWindows()
}

// goesOn reports whether the test goes on: until the period is over and enough plans have
// been carried out, which takes longer on a busy machine, but for at most six periods.
func (w *stressState) goesOn(took, period time.Duration) bool {
	w.Helper()
	w.overtime = took >= period
	return !w.overtime || took < 6*period && w.plansDone() < leastPlans()
}

// stressState is the state of the stress test. Only the test's goroutine uses it.
type stressState struct {
	*rescheduling
	agenda
	all []*stressTask
	// big is the last task of whole nodes.
	big *stressTask
	// leaves are the leaves of all nodes that ever existed, by their names in the test.
	leaves map[string]string
	// present are the existing nodes, disturbed those not in their normal state.
	present   []string
	disturbed map[string]bool
	done      map[string]int
	// overtime is true when the period is over but too little has been moved: then plans
	// are disturbed less often.
	overtime bool
	// boundAtKill is how many Pods had been bound at the last kill of each kind.
	boundAtKill map[string]int
	prodded     time.Time
}

func newStressState(t *testing.T) *stressState {
	t.Helper()
	w := &stressState{
		agenda: agenda{random: rand.New(rand.NewPCG(*rescheduleSeed, 2))}, leaves: map[string]string{}, disturbed: map[string]bool{}, done: map[string]int{}, boundAtKill: map[string]int{},
	}
	var list []machine
	for i := range stressedLeaves * stressedNodes {
		m := machine{name: fmt.Sprintf("n-%02d", i), gpus: stressedGPUs, leaf: fmt.Sprintf("leaf-%d", i%stressedLeaves)}
		list = append(list, m)
		w.leaves[m.name] = m.leaf
		w.present = append(w.present, m.name)
	}
	// Spreading makes it harder: there is more to move.
	w.rescheduling = newReschedulingWith(t, spreading, arguments{"partialGangTimeoutSeconds": partialTimeout.Seconds()}, list...)
	w.forbidEvictions(guardedLabel)
	w.reschedule(w.flags()...)
	return w
}

// flags returns the flags of the next controller: every second one also gives nodes back.
func (w *stressState) flags() []string {
	threshold := "--reschedule-threshold=0"
	if w.done["controllers killed"]%2 == 1 {
		threshold = "--reschedule-threshold=0.5"
	}
	return []string{
		threshold, "--reschedule-cooldown=4s", "--reschedule-move-timeout=20s",
		"--reschedule-moves-per-hour=0", "--reschedule-gpu-minutes-per-hour=0",
	}
}

func (w *stressState) doWhatIsDue(now time.Time) {
	w.Helper()
	w.doDue(now)
	if now.Sub(w.prodded) > time.Second {
		w.prodded = now
		(&workload{suite: w.suite}).prod(w.Context())
	}
}

// calmDown repairs everything and starts no new disturbances. Nodes are no longer given
// back either, as that would go on until the last task has ended.
func (w *stressState) calmDown() {
	w.Helper()
	w.reschedule(append(w.flags(), "--reschedule-threshold=0")...)
	w.keepLasting()
	for len(w.actions) > 0 {
		w.doWhatIsDue(time.Now())
		w.letPass(100 * time.Millisecond)
	}
}

// killOne kills the controller or the scheduler, if Pods have been bound since the last
// kill: killing a process that had no time to do anything tests nothing.
func (w *stressState) killOne() {
	w.Helper()
	if w.overtime && w.random.IntN(3) > 0 {
		return
	}
	victim := "controllers killed"
	if w.random.IntN(3) == 0 {
		victim = "schedulers killed"
	}
	bound := w.ledger.bound()
	if bound == w.boundAtKill[victim] {
		return
	}
	w.boundAtKill[victim] = bound
	w.done[victim]++
	if victim == "schedulers killed" {
		w.killScheduler()
		return
	}
	w.args = slices.Concat(promptly, w.flags())
	w.killController()
}

// disturb disturbs an undisturbed node, unless too many are disturbed already.
func (w *stressState) disturb() {
	w.Helper()
	node := w.present[w.random.IntN(len(w.present))]
	if w.disturbed[node] || len(w.disturbed) >= 2 {
		return
	}
	switch w.random.IntN(5) {
	case 0, 1:
		w.change(node, "nodes cordoned", `{"spec": {"unschedulable": true}}`, `{"spec": {"unschedulable": null}}`)
	case 2, 3:
		w.change(node, "nodes silent", `{"metadata": {"annotations": {"simulation.falldio.com/not-ready": "true"}}}`,
			`{"metadata": {"annotations": {"simulation.falldio.com/not-ready": null}}}`)
	default:
		w.replaceNode(node)
	}
}

func (w *stressState) change(node, what, patch, mend string) {
	w.Helper()
	w.done[what]++
	w.disturbed[node] = true
	w.patchNode(node, "%s", patch)
	w.later(w.between(2000, 6000), func() {
		w.patchNode(node, "%s", mend)
		delete(w.disturbed, node)
	})
}

// replaceNode loses a node, and adds another one in its place later.
func (w *stressState) replaceNode(node string) {
	w.Helper()
	w.done["nodes lost"]++
	w.loseNode(node)
	w.present = slices.DeleteFunc(w.present, func(name string) bool { return name == node })
	another := machine{name: fmt.Sprintf("m-%02d", w.done["nodes lost"]), gpus: stressedGPUs, leaf: w.leaves[node]}
	w.later(w.between(2000, 5000), func() {
		w.addNode(another)
		w.leaves[another.name] = another.leaf
		w.present = append(w.present, another.name)
	})
}

// abortOne aborts an unfinished plan, if there is one.
func (w *stressState) abortOne() {
	w.Helper()
	if w.overtime {
		return
	}
	plans := slices.DeleteFunc(w.plans(), func(plan v1.MovePlan) bool { return isFinal(&plan) })
	if len(plans) > 0 {
		w.done["plans aborted"]++
		w.patchPlan(plans[w.random.IntN(len(plans))].Name, `{"spec": {"abort": true}}`)
	}
}

// happened lists what was done.
func (w *stressState) happened() string {
	var texts []string
	for _, what := range slices.Sorted(maps.Keys(w.done)) {
		texts = append(texts, fmt.Sprintf("%d %s", w.done[what], what))
	}
	return strings.Join(texts, ", ")
}
