// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const (
	// soon is within what time whoever can start has to.
	soon = 2 * time.Second
	// wokenCases is how many random clusters there are for each change.
	wokenCases = 12
	// targetNode is the only node that a task can get.
	targetNode = "target"
	// mostCycles is how many cycles a Pod has at most at a time.
	mostCycles = 100
	// targetCards is how many GPUs each node has.
	targetCards = 4
)

// TestWhoeverCouldGoOnIsWoken has a task wait in a quiet cluster for one thing, which then changes, while nothing else
// happens: that must be enough. What an informer delivers and what kube-scheduler's cache shows come in any order, up
// to cacheLag apart.
func TestWhoeverCouldGoOnIsWoken(t *testing.T) {
	t.Parallel()
	for name, wakeup := range wakeups() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(wokenCases) {
				t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
					q := newQuiet(t, rand.New(rand.NewPCG(seed, 36)), wakeup)
					q.passes(q.upTo(40 * time.Second))
					if q.gone() {
						t.Fatalf("the task does not wait:\n%s", q)
					}
					wakeup.happens(q)
					q.settles()
					if q.passes(soon); !q.gone() {
						t.Errorf("the task does not start within %v: %v\n%s", soon, q.last, q)
					}
				})
			}
		})
	}
}

// wakeup is what a task waits for.
type wakeup struct {
	// node, task and objects are what keeps the task from the target; nil for nothing.
	node    func(*corev1.Node)
	task    func(*corev1.Pod)
	objects func() []runtime.Object
	// running are Pods on the target.
	running func() []*corev1.Pod
	// begins is called before the task comes, and happens is the change.
	begins, happens func(*quiet)
	// alone is true if the task is a single Pod.
	alone bool
}

// shownAt is what is shown at a time.
type shownAt struct {
	at   time.Time
	show func()
}

// quiet is a cluster in which nothing happens but what a test does: other nodes are full of Pods that nobody may
// preempt, and time passes.
type quiet struct {
	*framed
	dice *rand.Rand
	task []*corev1.Pod
	// scored is true if the profile chooses the nodes of single Pods.
	scored bool
	// informer and snapshot are what they show later, in order.
	informer, snapshot []shownAt
	// last is what the Pods of the task were told last, and preempted is true once others leave for it.
	last      map[string]string
	placed    map[types.UID]bool
	preempted bool
	maintains time.Time
}

func newQuiet(t *testing.T, dice *rand.Rand, w *wakeup) *quiet {
	t.Helper()
	q := &quiet{dice: dice, scored: dice.IntN(2) == 0, last: map[string]string{}, placed: map[types.UID]bool{}}
	nodes := []*corev1.Node{nodeWithGPUs(targetNode, strconv.Itoa(targetCards))}
	var running []*corev1.Pod
	for i := range dice.IntN(4) {
		node := nodeWithGPUs(fmt.Sprintf("full-%d", i), strconv.Itoa(targetCards))
		nodes = append(nodes, node)
		running = append(running, at(pod(fmt.Sprintf("r%d", i), targetCards, prioritized(gangPriority)), node.Name))
	}
	for _, node := range nodes {
		node.Labels[zoneLabel] = "x"
	}
	if w.node != nil {
		w.node(nodes[0])
	}
	if w.running != nil {
		running = append(running, w.running()...)
	}
	dice.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	var objects []runtime.Object
	if w.objects != nil {
		objects = w.objects()
	}
	q.framed = newFramed(t, nodes, running, objects...)
	q.maintains = q.clock.Now()
	q.followFilters(t.Context())
	if w.begins != nil {
		w.begins(q)
	}
	q.task = q.randomTask(w)
	q.comes(q.task...)
	return q
}

// randomTask returns a gang, or a single Pod.
func (q *quiet) randomTask(w *wakeup) []*corev1.Pod {
	count, each := 1+q.dice.IntN(2), 1+q.dice.IntN(2)
	if w.alone {
		count = 1
	}
	task := make([]*corev1.Pod, count)
	for i := range task {
		task[i] = pod(fmt.Sprintf("task-%d", i), each, prioritized(gangPriority))
		if count > 1 {
			in("task", count, i)(task[i])
		}
		if w.task != nil {
			w.task(task[i])
		}
	}
	return task
}

// upTo returns a random duration.
func (q *quiet) upTo(most time.Duration) time.Duration {
	return time.Duration(q.dice.Int64N(int64(most)))
}

// passes lets time pass, in which the planner does what it does in a running scheduler.
func (q *quiet) passes(duration time.Duration) {
	q.t.Helper()
	for end := q.clock.Now().Add(duration); q.clock.Now().Before(end); q.clock.Step(requeuePeriod) {
		now := q.clock.Now()
		for _, list := range []*[]shownAt{&q.informer, &q.snapshot} {
			for ; len(*list) > 0 && !(*list)[0].at.After(now); *list = (*list)[1:] {
				(*list)[0].show()
			}
		}
		q.line.OrderIfDue()
		q.activateDue()
		if now.Sub(q.maintains) >= maintenancePeriod {
			q.maintains = now
			q.maintain(q.t.Context())
		}
		q.schedules()
	}
}

// schedules lets the Pods that are queued have their cycles.
func (q *quiet) schedules() {
	q.t.Helper()
	for cycles := 0; ; cycles++ {
		names := q.handle.takeActivated()
		if len(names) == 0 {
			return
		}
		if cycles > mostCycles {
			q.t.Fatalf("%v are queued again and again: %v", names, q.last)
		}
		for _, name := range names {
			if member := q.registry.Member(types.UID(name)); member != nil && !q.placed[member.UID] {
				if why := q.Gate(member.Pod()); why != "" {
					q.last[name] = "gated: " + why
				} else {
					q.last[name] = q.cycle(member.Pod())
				}
			}
		}
	}
}

// cycle is the scheduling cycle of a Pod. It returns what the Pod is told.
func (q *quiet) cycle(p *corev1.Pod) string {
	q.t.Helper()
	decision := q.StartCycle(p, q.fixture.nodes(), q.scored)
	switch {
	case decision.Node != "":
		if status := q.filtered(p, decision.Node); !status.IsSuccess() {
			return q.Refuse(q.t.Context(), p.UID, decision.Plan, decision.Node) + ": " + status.Message()
		}
		return q.takes(p, decision)
	case decision.Order != nil:
		return q.scores(p, decision.Order)
	default:
		return decision.Waits + decision.Wrong + "; " + q.preempts(p)
	}
}

// scores is the rest of the cycle of a Pod that may go to several nodes.
func (q *quiet) scores(p *corev1.Pod, order map[string]int) string {
	q.t.Helper()
	statuses := framework.NewDefaultNodeToStatus()
	for _, node := range slices.SortedFunc(maps.Keys(order), func(a, b string) int { return order[a] - order[b] }) {
		status := q.filtered(p, node)
		if !status.IsSuccess() {
			statuses.Set(node, status)
			continue
		}
		plan, err := q.Reserve(p, node)
		if err != nil {
			return err.Error()
		}
		return q.takes(p, Decision{Node: node, Plan: plan})
	}
	q.RefusedByAll(p.UID, statuses, order)
	return "refused by all; " + q.preempts(p)
}

func (q *quiet) preempts(p *corev1.Pod) string {
	said := q.Preempt(q.t.Context(), p)
	q.preempted = q.preempted || strings.Contains(said, "preempted") || said == victimsLeaving
	return said
}

// takes lets a Pod take its seat.
func (q *quiet) takes(p *corev1.Pod, decision Decision) string {
	q.t.Helper()
	if _, err := q.reserve(p, decision); err != nil {
		if err := q.infos[decision.Node].RemovePod(q.logger, p); err != nil {
			q.t.Fatal(err)
		}
		q.Unreserve(p.UID, decision.Plan)
		return err.Error()
	}
	q.placed[p.UID] = true
	return "placed"
}

// filtered is what kube-scheduler's filters say of a Pod on a node.
func (q *quiet) filtered(p *corev1.Pod, node string) *fwk.Status {
	state := framework.NewCycleState()
	result, status, _ := q.framework.RunPreFilterPlugins(q.t.Context(), state, p)
	if !status.IsSuccess() || !result.AllNodes() && !result.NodeNames.Has(node) {
		return status
	}
	return q.framework.RunFilterPlugins(q.t.Context(), state, p, q.infos[node])
}

// gone reports whether the task has started, or others leave for it.
func (q *quiet) gone() bool { return q.preempted || len(q.placed) == len(q.task) }

// both shows a change to the informer and in the snapshot, in any order.
func (q *quiet) both(informer, snapshot func()) {
	now := q.clock.Now()
	lags := []time.Time{now, now.Add(q.upTo(cacheLag))}
	q.dice.Shuffle(len(lags), func(i, j int) { lags[i], lags[j] = lags[j], lags[i] })
	add := func(list []shownAt, at time.Time, show func()) []shownAt {
		if len(list) > 0 && list[len(list)-1].at.After(at) {
			at = list[len(list)-1].at
		}
		return append(list, shownAt{at, show})
	}
	q.informer, q.snapshot = add(q.informer, lags[0], informer), add(q.snapshot, lags[1], snapshot)
}

// settles lets time pass until all changes are shown.
func (q *quiet) settles() {
	for len(q.informer)+len(q.snapshot) > 0 {
		q.passes(requeuePeriod)
	}
}

// changes changes the target.
func (q *quiet) changes(how func(*corev1.Node)) {
	index := slices.IndexFunc(q.nodes, func(node *corev1.Node) bool { return node.Name == targetNode })
	before := q.nodes[index]
	after := before.DeepCopy()
	how(after)
	q.nodes[index] = after
	q.both(func() { q.nodeUpdated(before, after) }, func() { q.infos[targetNode].SetNode(after) })
}

// leaves removes a Pod that runs.
func (q *quiet) leaves(name string) {
	index := slices.IndexFunc(q.running, func(p *corev1.Pod) bool { return p.Name == name })
	gone := q.running[index]
	q.running = slices.Delete(slices.Clone(q.running), index, index+1)
	q.both(func() {
		if err := q.handle.informers.Core().V1().Pods().Informer().GetIndexer().Delete(gone); err != nil {
			q.t.Fatal(err)
		}
		q.podDeleted(gone)
	}, q.shows)
}

// becomes replaces a Pod that runs, or adds it.
func (q *quiet) becomes(after *corev1.Pod) {
	var before any
	running := slices.Clone(q.running)
	if index := slices.IndexFunc(running, func(p *corev1.Pod) bool { return p.Name == after.Name }); index >= 0 {
		before = running[index]
		running[index] = after
	} else {
		before = at(after, "")
		running = append(running, after)
	}
	q.running = running
	q.both(func() {
		q.cached(after)
		q.podUpdated(before, after)
	}, q.shows)
}

// shows makes the snapshot show what there is now. Nodes that have not changed keep their generations.
func (q *quiet) shows() {
	generations := map[string]int64{}
	for name, info := range q.infos {
		generations[name+podsOn(info)] = info.Generation
	}
	q.names = nil
	for _, node := range q.nodes {
		q.names = append(q.names, node.Name)
	}
	q.lister.Snapshot = cache.NewSnapshot(q.running, q.nodes)
	q.show(q.running)
	for name, info := range q.infos {
		if generation, same := generations[name+podsOn(info)]; same {
			info.Generation = generation
		}
	}
}

// podsOn identifies the Pods on a node.
func podsOn(info *framework.NodeInfo) string {
	var pods strings.Builder
	for _, one := range info.GetPods() {
		fmt.Fprintf(&pods, " %p", one.GetPod())
	}
	return fmt.Sprintf("%p%s", info.Node(), &pods)
}

// updates changes the Pods of the task.
func (q *quiet) updates(how func(*corev1.Pod)) {
	for i, before := range q.task {
		after := before.DeepCopy()
		how(after)
		after.ResourceVersion = "changed"
		q.task[i] = after
		q.cached(after)
		q.podUpdated(before, after)
	}
}

// stored changes an object in the API server, and waits until the informers show it.
func (q *quiet) stored(change func() error, shown func() bool) {
	q.t.Helper()
	if err := change(); err != nil {
		q.t.Fatal(err)
	}
	known := func(context.Context) (bool, error) { return shown(), nil }
	if err := wait.PollUntilContextTimeout(q.t.Context(), time.Millisecond, time.Minute, true, known); err != nil {
		q.t.Fatal("the informers do not show the change: ", err)
	}
}

// creates and replaces do so with an object that filters look at, and wait until these and the planner know it.
func (q *quiet) creates(kind fwk.EventResource, object runtime.Object) {
	q.follows(func() error { return q.handle.client.Tracker().Add(object) }, kind, nil, object)
}

func (q *quiet) replaces(kind fwk.EventResource, before, after runtime.Object) {
	q.follows(func() (err error) {
		switch after := after.(type) {
		case *corev1.Namespace:
			_, err = q.handle.client.CoreV1().Namespaces().Update(q.t.Context(), after, metav1.UpdateOptions{})
		case *storagev1.StorageClass:
			_, err = q.handle.client.StorageV1().StorageClasses().Update(q.t.Context(), after, metav1.UpdateOptions{})
		default:
			err = fmt.Errorf("%T: unknown", after)
		}
		return err
	}, kind, before, after)
}

func (q *quiet) follows(change func() error, kind fwk.EventResource, before, after runtime.Object) {
	q.t.Helper()
	changes := q.filters.Memory.Changes()
	q.stored(change, func() bool {
		return q.filters.Memory.Changes() > changes && q.filtered(q.task[0], targetNode).IsSuccess()
	})
	var was any
	if before != nil {
		was = before
	}
	q.objectChanged(kind, was, after) // what the handler does, which may not have ended yet
}
