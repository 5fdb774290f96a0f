// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

var (
	queueSeconds = flag.Int("queues.seconds", 40, "how long queues with guarantees have work in the stress test of queues")
	queueSeed    = flag.Uint64("queues.seed", 1, "what that is, and what happens to it")
)

const (
	queueNodes, queueNodeGPUs = 4, 8
	gpuController             = "gpu-controller"
	// wholeQueue is the queue of the gangs that need all GPUs.
	wholeQueue = "whole"
	// longest is for how long work declares to run that comes while a gang of all GPUs waits and nothing is owed.
	longest = 30 * time.Second
)

// stressedShares are the queues: two teams of an organisation with guarantees, which borrow from each other and from
// the rest, and others that borrow everything.
var stressedShares = map[string]share{
	"research": {guaranteed: 16, notice: time.Second},
	"vision":   {parent: "research", guaranteed: 8, limit: 20, notice: time.Second},
	"speech":   {parent: "research", guaranteed: 8, limit: 12, notice: 2 * time.Second},
	"batch":    {limit: 28, minRuntime: 3 * time.Second, notice: time.Second},
	wholeQueue: {notice: time.Second},
}

// teams are the queues that have work of their own and guarantees.
var teams = []string{"speech", "vision"}

// queueBounds are what the invariants allow. A killed scheduler is followed by another one when its lease has expired.
var queueBounds = bounds{step: 20 * time.Second, retry: 30 * time.Second, takeover: 15 * time.Second, longest: longest, drain: 90 * time.Second}

// queueOf returns a share as a GPUQueue for all namespaces; one with children accepts none.
func queueOf(name string, of share) *v1.GPUQueue {
	resource := v1.GPUQueueResource{GPU: v1.AnyGPU, Guaranteed: int32(of.guaranteed)}
	if of.limit > 0 {
		resource.Limit = new(int32(of.limit))
	}
	queue := &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.GPUQueueSpec{
		Parent: of.parent, Resources: []v1.GPUQueueResource{resource},
		Reclaim: &v1.GPUQueueReclaim{NoticeSeconds: new(int32(of.notice.Seconds())), MinRuntimeSeconds: new(int32(of.minRuntime.Seconds()))},
	}}
	if name != "research" {
		queue.Spec.NamespaceSelector = &metav1.LabelSelector{}
	}
	return queue
}

// TestTheInvariantsOfQueuesHoldUnderStress runs random gangs of several queues, some with guarantees and some that
// borrow, while users suspend and delete them, gpu-scheduler and gpu-controller are killed again and again, and nodes
// stop reporting. What happened is recorded, and must not violate any of the invariants.
func TestTheInvariantsOfQueuesHoldUnderStress(t *testing.T) {
	w := newQueueStress(t)
	w.borrowUpToTheLimit()
	begin := time.Now()
	w.every(12000, 20000, w.killScheduler)
	w.every(8000, 15000, func() { w.kill(gpuController) })
	w.every(9000, 16000, w.silenceANode)
	w.every(1500, 3500, w.interfere)
	w.every(7000, 12000, w.reweigh)
	for _, team := range teams {
		w.every(4000, 10000, func() { w.busy[team] = !w.busy[team] })
	}
	period := time.Duration(*queueSeconds) * time.Second
	w.later(period/3, w.submitWhole)
	for time.Since(begin) < period || w.killedTooSeldom() {
		w.tick()
	}
	w.stopTeams()
	w.runWhole()
	w.calmDown()
	w.checkAll(time.Since(begin))
}

// queueStress is the state of the stress test. Only the test's goroutine uses it.
type queueStress struct {
	*queueSuite
	agenda
	recorder *recorder
	// busy are the teams that have work now; done is true when they will have no more.
	busy map[string]bool
	done bool
	// count is how many tasks came, and whole how many of them need all GPUs.
	count, whole int
	// sizes are the GPUs of the tasks, and touched those that a user has suspended or deleted.
	sizes   map[string]int
	touched map[string]bool
	// unfinished are the tasks that have yet to end, by queue.
	unfinished map[string][]string
	happened   map[string]int
	silent     string
	prodded    time.Time
}

func newQueueStress(t *testing.T) *queueStress {
	t.Helper()
	var queues []*v1.GPUQueue
	for _, name := range slices.Sorted(maps.Keys(stressedShares)) {
		queues = append(queues, queueOf(name, stressedShares[name]))
	}
	w := &queueStress{
		queueSuite: newQueueSuite(t, "queues", queueNodes, queues...), agenda: agenda{random: rand.New(rand.NewPCG(*queueSeed, 2))},
		busy: map[string]bool{"vision": true}, sizes: map[string]int{}, touched: map[string]bool{}, happened: map[string]int{},
	}
	w.recorder = w.record()
	return w
}

// borrowUpToTheLimit has a queue borrow while nothing else wants the GPUs: up to its limit, and not beyond.
func (w *queueStress) borrowUpToTheLimit() {
	w.Helper()
	for i := range 4 {
		name := fmt.Sprintf("first-%d", i)
		w.createPods(gang{name: name, gpus: 4, duration: "10s"}.in("speech", time.Minute))
		if i < 3 {
			w.waitForBound(1, name)
		}
	}
	w.waitForRefusal("first-3", "queue speech holds 12 of at most 12 GPUs")
}

// tick does what is due, has the queues have work, and lets some time pass.
func (w *queueStress) tick() {
	w.Helper()
	w.doDue(time.Now())
	w.look()
	w.fill("batch", 60)
	for _, team := range teams {
		if w.busy[team] && !w.done {
			w.fill(team, 14)
		}
	}
}

// look finds out which tasks are unfinished, after a while in which something may have changed.
func (w *queueStress) look() {
	w.Helper()
	pause(w.Context(), 200*time.Millisecond)
	if now := time.Now(); now.Sub(w.prodded) > time.Second {
		w.prodded = now
		(&workload{suite: w.suite}).prod(w.Context())
	}
	list, err := w.tasks.FalldioV1().GPUTasks(w.namespace).List(w.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		w.Fatal(err)
	}
	w.unfinished = map[string][]string{}
	for i := range list.Items {
		if task := &list.Items[i]; !hasEnded(task) && task.DeletionTimestamp == nil {
			w.unfinished[task.Spec.Queue] = append(w.unfinished[task.Spec.Queue], task.Name)
		}
	}
}

// hasEnded reports whether a task has succeeded or failed.
func hasEnded(task *v1.GPUTask) bool {
	return task.Status.Phase == v1.PhaseSucceeded || task.Status.Phase == v1.PhaseFailed
}

// fill submits tasks until the unfinished ones of a queue ask for so many GPUs.
func (w *queueStress) fill(queue string, gpus int) {
	w.Helper()
	for _, name := range w.unfinished[queue] {
		gpus -= w.sizes[name]
	}
	for gpus > 0 {
		gpus -= w.submit(w.randomGang(queue))
	}
}

func (w *queueStress) randomGang(queue string) gang {
	most := 12
	if queue != "batch" && w.random.IntN(4) > 0 {
		most = stressedShares[queue].guaranteed / 2
	}
	g := gang{pods: 1 + w.random.IntN(3), gpus: 1 << w.random.IntN(4), duration: w.between(3000, 8000).String(), priority: low}
	if w.random.IntN(8) == 0 {
		g.duration = w.between(10000, 15000).String()
	}
	for g.pods*g.gpus > most {
		g.pods, g.gpus = max(1, g.pods-1), max(1, g.gpus/2)
	}
	if w.random.IntN(4) == 0 {
		g.priority = medium
	}
	limit := time.Duration(0)
	switch dice := w.random.IntN(10); {
	case dice < 3 && !w.done: // most users declare far too much
		limit = time.Duration(10+w.random.IntN(10)) * time.Minute
	case dice < 8:
		limit = longest - time.Duration(w.random.IntN(3))*5*time.Second
	}
	w.count++
	g.name = fmt.Sprintf("%s-%03d", queue, w.count)
	return g.in(queue, limit)
}

// submit creates a task and returns its GPUs.
func (w *queueStress) submit(g gang) int {
	w.Helper()
	w.createTasks(g)
	w.sizes[g.name] = g.pods * g.gpus
	queue := g.labels[v1.LabelQueue]
	w.unfinished[queue] = append(w.unfinished[queue], g.name)
	return w.sizes[g.name]
}

// submitWhole submits a gang of all GPUs.
func (w *queueStress) submitWhole() {
	w.Helper()
	w.whole++
	w.submit(gang{name: fmt.Sprintf("%s-%d", wholeQueue, w.whole), pods: queueNodes, gpus: queueNodeGPUs, duration: "2s", priority: low}.in(wholeQueue, longest))
}

// stopTeams waits until no queue has work that has a guarantee. The others go on.
func (w *queueStress) stopTeams() {
	w.Helper()
	w.done = true
	w.whileThereIsProgress("the tasks of the teams have ended", w.ledger.progress, func() (bool, string) {
		w.tick()
		left := slices.Concat(w.unfinished["speech"], w.unfinished["vision"])
		return len(left) == 0, w.describeTasks(left)
	})
	w.recorder.add(&fact{mark: nothingIsOwed})
}

// runWhole waits until a gang of all GPUs, which has no nodes yet, has ended. Work of others comes all the time.
func (w *queueStress) runWhole() {
	w.Helper()
	waits := func(pod *corev1.Pod) bool { return pod.Labels[v1.LabelQueue] == wholeQueue && pod.Spec.NodeName == "" }
	if len(w.ledger.podsWith(waits)) == 0 {
		w.submitWhole()
	}
	w.whileThereIsProgress("the gang that needs all GPUs has ended", w.ledger.progress, func() (bool, string) {
		w.tick()
		left := w.unfinished[wholeQueue]
		return len(left) == 0, w.describeTasks(left)
	})
}

// calmDown ends the disturbances and waits until all tasks have ended.
func (w *queueStress) calmDown() {
	w.Helper()
	w.keepLasting()
	w.whileThereIsProgress("nothing is disturbed", w.ledger.progress, func() (bool, string) {
		w.doDue(time.Now())
		return len(w.actions) == 0, fmt.Sprintf("%d things are still to be done", len(w.actions))
	})
	w.recorder.add(&fact{mark: nothingComes})
	w.whileThereIsProgress("all tasks have ended", w.ledger.progress, func() (bool, string) {
		w.look()
		left := slices.Concat(slices.Collect(maps.Values(w.unfinished))...)
		return len(left) == 0, w.describeTasks(left)
	})
	w.eventually("no GPU is held", func() (bool, string) {
		return w.ledger.heldCards() == 0, describe(w.ledger.podsWith(isHolding))
	})
	w.writeStatuses()
}

// writeStatuses has gpu-controller write the status of each queue now: it does for a new spec.
func (w *queueStress) writeStatuses() {
	w.Helper()
	for name := range stressedShares {
		w.setWeight(name, 100)
	}
	w.eventually("the status of all queues is written", func() (bool, string) {
		list, err := w.tasks.FalldioV1().GPUQueues().List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for i := range list.Items {
			if queue := &list.Items[i]; queue.Status.ObservedGeneration != queue.Generation {
				return false, queue.Name
			}
		}
		return true, ""
	})
}

// checkAll checks what was recorded, and that it proves something.
func (w *queueStress) checkAll(took time.Duration) {
	w.Helper()
	facts := w.recorder.until()
	v := newInvariants(stressedShares, queueBounds, wholeQueue)
	problems, found := v.check(facts)
	for _, text := range problems {
		w.Error(text)
	}
	if v.most["speech"] != stressedShares["speech"].limit {
		w.Errorf("speech has held at most %d GPUs, want all %d of its limit", v.most["speech"], stressedShares["speech"].limit)
	}
	if found.owed == 0 || found.promises == 0 || found.statuses < 2*len(stressedShares) || found.whole == 0 || w.killedTooSeldom() {
		w.Errorf("too little has happened, this proves nothing: %+v, %v", found, w.happened)
	}
	w.Logf("%d tasks came within %v; %v; %d facts; the queues have held at most %v GPUs", w.count, took.Round(time.Second), w.happened, len(facts), v.most)
	w.Logf("%d times something was owed, for %v at most; %d promises, %d of them moved later; %d statuses; a gang of all GPUs waited for %v beside others",
		found.owed, found.longestOwed.Round(time.Millisecond), found.promises, found.later, found.statuses, found.whole.Round(time.Millisecond))
}

// killedTooSeldom reports whether one of the processes was not killed twice yet.
func (w *queueStress) killedTooSeldom() bool {
	return min(w.happened[gpuScheduler+" killed"], w.happened[gpuController+" killed"]) < 2
}

// kill kills a process of the cluster, which is started again.
func (w *queueStress) kill(name string) {
	w.Helper()
	pid, err := w.PID(name)
	if err != nil {
		return // it is about to be started
	}
	w.happened[name+" killed"]++
	w.recorder.add(&fact{killed: name})
	w.ledger.killed(time.Now())
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		w.Errorf("killing %s: %v", name, err)
	}
}

// killScheduler kills gpu-scheduler, unless a gang of all GPUs waits for the last stage: its reservation ends with the
// process.
func (w *queueStress) killScheduler() {
	w.Helper()
	if !w.done {
		w.kill(gpuScheduler)
	}
}

// silenceANode has a node stop reporting for some seconds.
func (w *queueStress) silenceANode() {
	w.Helper()
	if w.silent != "" || w.done {
		return
	}
	nodes, err := w.kube.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	w.silent = nodes.Items[w.random.IntN(len(nodes.Items))].Name
	w.happened["nodes silent"]++
	w.annotateNode(w.silent, `"true"`)
	w.later(w.between(2000, 5000), func() {
		w.annotateNode(w.silent, "null")
		w.silent = ""
	})
}

func (w *queueStress) annotateNode(name, value string) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {"simulation.falldio.com/not-ready": %s}}}`, value)
	if _, err := w.kube.CoreV1().Nodes().Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

// interfere does what users do: they delete tasks, or suspend them for a while.
func (w *queueStress) interfere() {
	w.Helper()
	var names []string
	for _, queue := range slices.Concat(teams, []string{"batch"}) {
		for _, name := range w.unfinished[queue] {
			if !w.touched[name] {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return
	}
	name := names[w.random.IntN(len(names))]
	w.touched[name] = true
	if w.random.IntN(2) == 0 {
		w.happened["tasks deleted"]++
		err := w.tasks.FalldioV1().GPUTasks(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			w.Fatal(err)
		}
		return
	}
	w.happened["tasks suspended"]++
	w.patchTasks(`{"spec": {"suspend": true}}`, name)
	w.later(w.between(1000, 4000), func() { w.patchTasks(`{"spec": {"suspend": false}}`, name) })
}

// reweigh does what an administrator may do at any time. The status of the queue is written at once then.
func (w *queueStress) reweigh() {
	w.Helper()
	names := slices.Sorted(maps.Keys(stressedShares))
	w.setWeight(names[w.random.IntN(len(names))], 1+w.random.IntN(10))
}

func (w *queueStress) setWeight(queue string, weight int) {
	w.Helper()
	patch := fmt.Appendf(nil, `{"spec": {"weight": %d}}`, weight)
	if _, err := w.tasks.FalldioV1().GPUQueues().Patch(w.Context(), queue, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

// describeTasks says how tasks are.
func (w *queueStress) describeTasks(names []string) string {
	w.Helper()
	const most = 10
	texts := []string{fmt.Sprintf("%d tasks", len(names))}
	for _, name := range names[:min(len(names), most)] {
		task, err := w.tasks.FalldioV1().GPUTasks(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		if err != nil {
			continue // it was deleted
		}
		texts = append(texts, fmt.Sprintf("%s is %s: %s", name, task.Status.Phase, task.Status.Message))
	}
	return strings.Join(texts, "\n")
}
