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
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/scheduler/filters"
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

// TestWhoeverCouldGoOnIsWoken has a task wait in a quiet cluster for one thing, which then changes, while nothing else happens: that
// must be enough. What an informer delivers and what kube-scheduler's cache shows come in any order, up to cacheLag apart.
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

// quiet is a cluster in which nothing happens but what a test does: other nodes are full of Pods that nobody may preempt, and time passes.
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
		q.orderIfDue()
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
			return q.Refuse(p.UID, decision.Plan, decision.Node) + ": " + status.Message()
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

func cordon(n *corev1.Node) {
	n.Spec.Unschedulable = true
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
}

var toleratesCordon = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}

func untaint(n *corev1.Node) { n.Spec.Taints = nil }

func keepsPort(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
}

// wakeups are what a task may wait for.
func wakeups() map[string]*wakeup {
	return map[string]*wakeup{
		"uncordon": {node: cordon, happens: func(q *quiet) {
			q.changes(func(n *corev1.Node) { n.Spec.Unschedulable = false })
			q.passes(q.upTo(2 * time.Second)) // Kubernetes removes the taint a moment later
			q.changes(untaint)
		}},
		"a taint goes": {node: func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: taintKey, Effect: corev1.TaintEffectNoSchedule}}
		}, happens: func(q *quiet) { q.changes(untaint) }},
		"a label comes": {
			task:    func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{kindLabel: "a"} },
			happens: func(q *quiet) { q.changes(func(n *corev1.Node) { n.Labels[kindLabel] = "a" }) },
		},
		"a label that volumes need comes": {
			node: func(n *corev1.Node) { delete(n.Labels, zoneLabel) },
			task: func(p *corev1.Pod) { p.Spec.Volumes = volumesFrom("x") },
			objects: func() []runtime.Object {
				volume, claim := volumeIn("x")
				return []runtime.Object{volume, claim}
			},
			happens: func(q *quiet) { q.changes(func(n *corev1.Node) { n.Labels[zoneLabel] = "x" }) },
		},
		"the node declares a feature": {
			task: func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostUsers = true, new(false) },
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"UserNamespacesHostNetworkSupport"} })
			},
		},
		"the node offers more": {
			node: func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("500m") },
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("8") })
			},
		},
		"the node offers a resource": {
			task: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[adapter] = resource.MustParse("1") },
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { n.Status.Allocatable[adapter] = resource.MustParse("4") })
			},
		},
		"a device plugin has registered whole GPUs, after shares": {
			node: func(n *corev1.Node) {
				lists(n, inventory.Healthy)
				n.Status.Allocatable[v1.ResourceGPU], n.Status.Allocatable[v1.ResourceGPUPercent] = resource.MustParse("0"), resource.MustParse("400")
			},
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { n.Status.Allocatable[v1.ResourceGPU] = resource.MustParse("4") })
			},
		},
		"GPUs are returned": {
			running: func() []*corev1.Pod {
				return []*corev1.Pod{at(pod("holds", targetCards, prioritized(gangPriority)), targetNode)}
			},
			happens: func(q *quiet) { q.leaves("holds") },
		},
		"a port is returned": {
			running: func() []*corev1.Pod {
				return []*corev1.Pod{at(pod("holds", 0, keepsPort, prioritized(gangPriority)), targetNode)}
			},
			task: keepsPort, alone: true,
			happens: func(q *quiet) { q.leaves("holds") },
		},
		"a Pod that must be near comes": {
			task: func(p *corev1.Pod) { p.Spec.Affinity = near("a", corev1.LabelHostname) },
			happens: func(q *quiet) {
				q.becomes(at(pod("near", 0, func(p *corev1.Pod) { p.Labels[kindLabel] = "a" }), targetNode))
			},
		},
		"a Pod that must be near gets its label": {
			running: func() []*corev1.Pod { return []*corev1.Pod{at(pod("near", 0), targetNode)} },
			task:    func(p *corev1.Pod) { p.Spec.Affinity = near("a", corev1.LabelHostname) },
			happens: func(q *quiet) {
				q.becomes(at(pod("near", 0, func(p *corev1.Pod) { p.Labels[kindLabel] = "a" }), targetNode))
			},
		},
		"a Pod that keeps it away goes": {
			running: func() []*corev1.Pod {
				return []*corev1.Pod{at(pod("away", 0, prioritized(gangPriority), func(p *corev1.Pod) { p.Labels[kindLabel] = "a" }), targetNode)}
			},
			task:    func(p *corev1.Pod) { p.Spec.Affinity = awayFrom("a", zoneLabel) },
			happens: func(q *quiet) { q.leaves("away") },
		},
		"an emptier zone goes": {
			begins: func(q *quiet) {
				spare := nodeWithGPUs("spare", "0")
				spare.Labels[zoneLabel] = "y"
				q.nodes = append(q.nodes, spare)
				q.running = append(q.running, at(pod("there", 0, prioritized(gangPriority), func(p *corev1.Pod) { p.Labels[kindLabel] = "a" }), targetNode))
				q.shows()
				q.nodeUpdated(nil, spare)
			},
			task: func(p *corev1.Pod) {
				p.Labels[kindLabel] = "a"
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: zoneLabel, WhenUnsatisfiable: corev1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{kindLabel: "a"}},
				}}
			},
			happens: func(q *quiet) {
				index := slices.IndexFunc(q.nodes, func(n *corev1.Node) bool { return n.Name == "spare" })
				spare := q.nodes[index]
				q.nodes = slices.Delete(slices.Clone(q.nodes), index, index+1)
				q.both(func() { q.nodeDeleted(spare) }, q.shows)
			},
		},
		"a node comes": {
			node: cordon,
			happens: func(q *quiet) {
				more := nodeWithGPUs("more", strconv.Itoa(targetCards))
				q.nodes = append(slices.Clone(q.nodes), more)
				q.both(func() { q.nodeUpdated(nil, more) }, q.shows)
			},
		},
		"a gang of lower priority may leave, once the node is open": {
			node: cordon, running: lowPriority(),
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { n.Spec.Unschedulable = false })
				q.passes(q.upTo(2 * time.Second))
				q.changes(untaint)
			},
		},
		"Pods of a lower priority may leave, once the node declares a feature": {
			running: lowPriority(),
			task:    func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostUsers = true, new(false) },
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"UserNamespacesHostNetworkSupport"} })
			},
		},
		"Pods of a lower priority may leave, once their budget allows it": {
			running: lowPriority(app(budgetName)),
			begins:  func(q *quiet) { q.budget(budgetName, 0) },
			happens: func(q *quiet) {
				q.budget(budgetName, targetCards)
				q.budgetUpdated(budgetOf(0), budgetOf(targetCards))
			},
		},
		"a GPU is healthy again": {
			node: func(n *corev1.Node) { lists(n, inventory.Unhealthy) },
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { lists(n, inventory.Healthy) })
			},
		},
		"a Pod is resized": {
			running: func() []*corev1.Pod {
				return []*corev1.Pod{at(pod("holds", 0, prioritized(gangPriority), wantsCPU("8")), targetNode)}
			},
			happens: func(q *quiet) { q.becomes(at(pod("holds", 0, prioritized(gangPriority), wantsCPU("1")), targetNode)) },
		},
		"a reservation expires": {
			node:    reserved(beginning.Add(time.Minute)),
			happens: func(q *quiet) { q.passes(beginning.Add(time.Minute).Sub(q.clock.Now())) },
		},
		"a queue may hold more": {
			begins: func(q *quiet) { q.withQueues(queue("all", 0, new(int32(0)))) },
			happens: func(q *quiet) {
				q.withQueues(queue("all", 0, new(int32(100))))
				q.queuesChanged()
			},
		},
		"the queue comes": {
			begins: func(q *quiet) { q.withQueues(queue("other", 0, nil)) },
			task:   inQueue("mine"),
			happens: func(q *quiet) {
				q.withQueues(queue("other", 0, nil), queue("mine", 0, nil))
				q.queuesChanged()
			},
		},
		"the task is put into another queue": {
			begins:  func(q *quiet) { q.withQueues(queue("full", 0, new(int32(0))), queue("free", 0, nil)) },
			task:    inQueue("full"),
			happens: func(q *quiet) { q.updates(inQueue("free")) },
		},
		"a claim comes": {
			task: func(p *corev1.Pod) { p.Spec.Volumes = volumesFrom("x") },
			objects: func() []runtime.Object {
				volume, _ := volumeIn("x")
				return []runtime.Object{volume}
			},
			happens: func(q *quiet) {
				_, claim := volumeIn("x")
				q.creates(fwk.PersistentVolumeClaim, claim)
			},
		},
		"a Pod comes, which the attempt of the moment does not see": {
			task: func(p *corev1.Pod) { p.Spec.Affinity = near("a", corev1.LabelHostname) },
			happens: func(q *quiet) {
				q.rejections.sweep(func(string) bool { return false }) // until the attempt has ended, it is not known who refuses
				comes := at(pod("near", 0, func(p *corev1.Pod) { p.Labels[kindLabel] = "a" }), targetNode)
				q.cached(comes)
				q.podUpdated(at(comes, ""), comes)
				q.last["then"] = q.cycle(q.task[0])
				q.running = append(slices.Clone(q.running), comes)
				q.snapshot = append(q.snapshot, shownAt{q.clock.Now().Add(q.upTo(cacheLag)), q.shows})
			},
		},
		"a volume comes": {
			task: func(p *corev1.Pod) { p.Spec.Volumes = volumesFrom("x") },
			objects: func() []runtime.Object {
				_, claim := volumeIn("x")
				return []runtime.Object{claim}
			},
			happens: func(q *quiet) {
				volume, _ := volumeIn("x")
				q.creates(fwk.PersistentVolume, volume)
			},
		},
		"a storage class comes": {
			task:    func(p *corev1.Pod) { p.Spec.Volumes = volumesFrom("later") },
			objects: func() []runtime.Object { return []runtime.Object{claimOfClass()} },
			happens: func(q *quiet) { q.creates(fwk.StorageClass, classOfVolumes()) },
		},
		"the topology of a storage class widens": {
			task:    func(p *corev1.Pod) { p.Spec.Volumes = volumesFrom("later") },
			objects: func() []runtime.Object { return []runtime.Object{claimOfClass(), elsewhere()} },
			happens: func(q *quiet) { q.replaces(fwk.StorageClass, elsewhere(), classOfVolumes()) },
		},
		"capacity for volumes comes": {
			task:    func(p *corev1.Pod) { p.Spec.Volumes = volumesFrom("later") },
			objects: func() []runtime.Object { return []runtime.Object{claimOfClass(), classOfVolumes(), driverOfVolumes()} },
			happens: func(q *quiet) {
				q.creates(fwk.CSIStorageCapacity, &storagev1.CSIStorageCapacity{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "capacity"}, StorageClassName: "later",
					NodeTopology: &metav1.LabelSelector{}, Capacity: new(resource.MustParse("1Ti")),
				})
			},
		},
		"another task's place is given back": {
			begins: func(q *quiet) {
				other := pod("other", targetCards, prioritized(gangPriority))
				q.comes(other)
				q.task = nil
				q.passes(requeuePeriod)
				if !q.placed[other.UID] {
					q.t.Fatalf("the other one has no place: %v", q.last)
				}
				delete(q.placed, other.UID)
			},
			happens: func(q *quiet) {
				member := q.registry.Member("other")
				seat, _ := q.registry.SeatOf("other")
				q.both(func() { q.Unreserve("other", seat.Plan) }, func() {
					if err := q.infos[targetNode].RemovePod(q.logger, member.Pod()); err != nil {
						q.t.Fatal(err)
					}
				})
				q.goes(member.Pod()) // else it would take the place again
			},
		},
		"a namespace gets a label": {
			running: func() []*corev1.Pod {
				return []*corev1.Pod{at(pod("near", 0, func(p *corev1.Pod) { p.Namespace, p.Labels[kindLabel] = "friends", "a" }), targetNode)}
			},
			objects: func() []runtime.Object {
				return []runtime.Object{namespace("friends")}
			},
			task: func(p *corev1.Pod) {
				p.Spec.Affinity = near("a", corev1.LabelHostname)
				p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"friend": "yes"}}
			},
			happens: func(q *quiet) {
				after := namespace("friends")
				after.Labels = map[string]string{"friend": "yes"}
				q.replaces(filters.Namespace, namespace("friends"), after)
			},
		},
		"the task tolerates the cordon": {
			node: cordon,
			happens: func(q *quiet) {
				q.updates(func(p *corev1.Pod) { p.Spec.Tolerations = toleratesCordon })
			},
		},
		"GPUs of a cordoned node are returned to who tolerates that": {
			node: cordon, running: lowPriority(prioritized(gangPriority)),
			task:    func(p *corev1.Pod) { p.Spec.Tolerations = toleratesCordon },
			happens: func(q *quiet) { q.leaves("low") },
		},
		"a reservation goes": {
			node: reserved(beginning.Add(time.Hour)),
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { delete(n.Annotations, reservation.Annotation) })
			},
		},
		"a scheduling gate goes": {
			task: func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "gate"}} },
			happens: func(q *quiet) {
				q.updates(func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
			},
		},
		"the task tolerates more": {
			node: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: taintKey, Effect: corev1.TaintEffectNoSchedule}}
			},
			happens: func(q *quiet) {
				q.updates(func(p *corev1.Pod) {
					p.Spec.Tolerations = []corev1.Toleration{{Key: taintKey, Operator: corev1.TolerationOpExists}}
				})
			},
		},
		"the task's own labels change": {
			running: func() []*corev1.Pod {
				return []*corev1.Pod{at(pod("away", 0, prioritized(gangPriority), func(p *corev1.Pod) { p.Spec.Affinity = awayFrom("a", zoneLabel) }), targetNode)}
			},
			task:    func(p *corev1.Pod) { p.Labels[kindLabel] = "a" },
			happens: func(q *quiet) { q.updates(func(p *corev1.Pod) { p.Labels[kindLabel] = "b" }) },
		},
	}
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
	changes := q.memory.Changes()
	q.stored(change, func() bool { return q.memory.Changes() > changes && q.filtered(q.task[0], targetNode).IsSuccess() })
	var was any
	if before != nil {
		was = before
	}
	q.objectChanged(kind, was, after) // what the handler does, which may not have ended yet
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func lowPriority(options ...func(*corev1.Pod)) func() []*corev1.Pod {
	return func() []*corev1.Pod {
		return []*corev1.Pod{at(pod("low", targetCards, append([]func(*corev1.Pod){prioritized(lowestPriority)}, options...)...), targetNode)}
	}
}

func budgetOf(allowed int32) *policyv1.PodDisruptionBudget {
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: budgetName}}
	pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": budgetName}}
	pdb.Status.DisruptionsAllowed = allowed
	return pdb
}

func wantsCPU(amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(amount)
	}
}

// lists lets the agent of a node list GPUs.
func lists(n *corev1.Node, health string) {
	listed := inventory.Inventory{}
	for i := range targetCards {
		listed.GPUs = append(listed.GPUs, inventory.GPU{Index: i, UUID: fmt.Sprint(n.Name, "-", i), Health: health})
	}
	text, err := listed.String()
	if err != nil {
		panic(err) // it can be encoded
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, inventory.Annotation, text)
}

// claimOfClass returns a claim for a volume that is made when its Pod has a node.
func claimOfClass() *corev1.PersistentVolumeClaim {
	_, claim := volumeIn("later")
	claim.Annotations, claim.Spec.VolumeName, claim.Spec.StorageClassName = nil, "", new("later")
	claim.Status.Phase = corev1.ClaimPending
	return claim
}

func classOfVolumes() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "later"}, Provisioner: "volumes.example.com", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

// elsewhere is such a class whose volumes are made in another zone only.
func elsewhere() *storagev1.StorageClass {
	class := classOfVolumes()
	class.AllowedTopologies = []corev1.TopologySelectorTerm{{
		MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: zoneLabel, Values: []string{"elsewhere"}}},
	}}
	return class
}

func driverOfVolumes() *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "volumes.example.com"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)}}
}

// reserved keeps the target for another Pod.
func reserved(until time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) {
		text, err := reservation.Format([]reservation.Reservation{{
			Plan: "plan", Pod: "default/other", Kind: reservation.Start, Cards: targetCards, Priority: gangPriority, Until: until,
		}})
		if err != nil {
			panic(err) // it can be encoded
		}
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, reservation.Annotation, text)
	}
}
