// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Mirror is the engine's view of the cluster. It is safe for concurrent use.
type Mirror struct {
	logger klog.Logger
	clock  clock.PassiveClock
	pools  map[string]bool

	locks
	view    snapshot.NodeView
	policy  *packing.Policy
	cluster *placement.Cluster
	nodes   map[string]*node
	// order has the nodes in the order of the last snapshot.
	order []*node
	pods  map[types.UID]*entry
	// priorities counts these Pods by priority.
	priorities map[int32]int
	// holdings counts what they hold, in percent of a GPU; holdingsVersion counts its changes.
	holdings        map[Account]int
	holdingsVersion uint64
	// orphaned are the seats of Pods whose nodes went away.
	orphaned map[types.UID]orphanedSeat
	// seated is what seats withhold, by node, whose Pods have not been assumed yet.
	seated map[string]*nodeSeats
	// reserving are the nodes that have reservations, nextExpiry is when the first of those
	// expires, and expired is true if any has expired since the last Sweep.
	reserving  map[string]*node
	nextExpiry time.Time
	expired    bool
	// devices are the UUIDs of the GPUs that resource claims hold, by node.
	devices map[string][]string
	// owned are those that are a Pod's alone.
	owned map[types.UID][]string
	// pass counts the snapshots, version the changes of nodes that they showed.
	pass, version uint64
	// nodesVersion counts the changes of what nodes offer, and admissions those of all that may decide which Pods they
	// admit.
	nodesVersion, admissions uint64
	// freed counts the changes after which there may be more room than before.
	freed uint64
	// census is what the nodes of the snapshot have.
	census *census
	// recorder is told about changes; nil if nothing is recorded.
	recorder Recorder
}

// node is the state of a node in the last snapshot.
type node struct {
	info       fwk.NodeInfo
	generation int64
	object     *corev1.Node
	// counted is the node that the census counts, and outdated is true if it has to be described anew although it has
	// not changed.
	counted   *corev1.Node
	outdated  bool
	described placement.Node
	cards     snapshot.Cards
	// ours is false for nodes of other schedulers' pools.
	ours bool
	// pods are the node's Pods in the snapshot.
	pods map[types.UID]*entry
	pass uint64
	// annotation is the text that reservations were parsed from.
	annotation   string
	reservations []*activeReservation
	// heldByClaims are the cards that resource claims hold, except those of known Pods.
	heldByClaims []int
	// overClaims is true if Pods get the GPUs by resource claims (DRA), their own or those that
	// kube-scheduler makes for them.
	overClaims bool
}

// orphanedSeat is the seat of a Pod whose node went away. Its Binding, which names the
// cards, may be in flight when the node is deleted, and the node may come back before the
// Pod does.
type orphanedSeat struct {
	node  string
	cards snapshot.Cards
	gpus  []int
}

// entry is a Pod that holds something on a node.
type entry struct {
	pod  *corev1.Pod
	node string
	use  placement.Use
	// priority is the one that the Pod is counted with, and counted how much of GPUs, in
	// percent, for which account.
	priority int32
	account  Account
	counted  int
	// withheld is what the seat withholds, until the snapshot shows the Pod, which may have been resized meanwhile.
	withheld Withheld
	// held is true while the Pod has a seat, seen once it is in the snapshot.
	held, seen bool
	// previous is the Pod as the snapshot showed it in an earlier attempt.
	previous *corev1.Pod
	// elsewhere is another node on which the snapshot shows the Pod, which counts there as soon as the seat has ended;
	// nil for none.
	elsewhere *node
	// lost is true if a card of the seat has gone.
	lost bool
	pass uint64
}

// Withheld is what seats or reservations withhold from others on a node.
type Withheld struct {
	CPU    int64 // milli-cores
	Memory int64 // MiB
	Others placement.Amounts
	Pods   int
}

// WithheldFor returns what is withheld for one Pod.
func WithheldFor(use *placement.Use) Withheld {
	return Withheld{CPU: use.CPU, Memory: use.Memory, Others: use.Others, Pods: 1}
}

// Plus returns the sum of both.
func (c Withheld) Plus(other Withheld) Withheld {
	return Withheld{CPU: c.CPU + other.CPU, Memory: c.Memory + other.Memory, Others: c.Others.Plus(other.Others), Pods: c.Pods + other.Pods}
}

// Minus returns what is left when others provide a part of it: never less than nothing.
func (c Withheld) Minus(part Withheld) Withheld {
	rest := Withheld{CPU: max(0, c.CPU-part.CPU), Memory: max(0, c.Memory-part.Memory), Pods: max(0, c.Pods-part.Pods)}
	for _, one := range c.Others {
		if one.Value -= part.Others.Of(one.Resource); one.Value > 0 {
			rest.Others = append(rest.Others, one)
		}
	}
	return rest
}

// IsZero reports whether nothing is withheld.
func (c Withheld) IsZero() bool {
	return c.CPU == 0 && c.Memory == 0 && c.Pods == 0 && len(c.Others) == 0
}

// nodeSeats are the seats on one node, and what they hold.
type nodeSeats struct {
	Withheld
	seats map[*entry]bool
}

// New returns a Mirror of the nodes of some pools, or of all.
func New(logger klog.Logger, now clock.PassiveClock, levels snapshot.Levels, pools []string) *Mirror {
	m := &Mirror{
		logger: logger, clock: now, pools: map[string]bool{}, nodes: map[string]*node{}, pods: map[types.UID]*entry{}, priorities: map[int32]int{}, holdings: map[Account]int{},
		orphaned: map[types.UID]orphanedSeat{}, seated: map[string]*nodeSeats{}, reserving: map[string]*node{},
		devices: map[string][]string{}, owned: map[types.UID][]string{},
		census: newCensus(), view: snapshot.NodeView{Levels: levels, Exact: true}, policy: packing.New(packing.Default()),
	}
	for _, pool := range pools {
		m.pools[pool] = true
	}
	m.cluster = placement.NewCluster(m.policy)
	return m
}

// SetPreferenceTolerance sets how much more a place may cost for a Pod's preference to
// choose it.
func (m *Mirror) SetPreferenceTolerance(tolerance float64) {
	m.lockEngine()
	defer m.unlockEngine()
	m.cluster.SetPreferenceTolerance(tolerance)
}

// With calls do with the engine's cluster, which do must not retain.
func (m *Mirror) With(do func(*placement.Cluster)) {
	m.lockEngine()
	defer m.unlockEngine()
	do(m.cluster)
}

// Owns reports whether a node's pool is one of the scheduler's.
func (m *Mirror) Owns(object *corev1.Node) bool {
	return len(m.pools) == 0 || m.pools[object.Labels[v1.LabelNodePool]]
}

// Learn adds a request to what the packing policy knows of the demand. It is called once
// for each Pod. ending says whether anything is known about how long the Pod runs.
func (m *Mirror) Learn(shape placement.Shape, ending bool) {
	m.lockEngine()
	defer m.unlockEngine()
	request := m.cluster.Request(shape)
	if m.recorder != nil {
		m.recorder.Learned(&request.Shape, ending)
	}
	if ending {
		m.policy.LearnEnding(m.cluster, request)
		return
	}
	m.policy.Learn(m.cluster, request)
}

// Lists reports whether any node has listed a resource by which shapes ask for GPUs, so that
// the engine can count it. It may be called within With or For.
func (m *Mirror) Lists(resource corev1.ResourceName) bool {
	return resource != v1.ResourceNVIDIAGPU || m.census.isListed(string(resource))
}

// Version returns a number that changes whenever a node has changed, or what runs there.
func (m *Mirror) Version() uint64 {
	m.state.RLock()
	defer m.state.RUnlock()
	return m.version
}

// Freed returns a number that changes whenever there may be more room than before: a node
// has changed, a Pod, a seat or a reservation has gone or holds something else. As long as
// it stays the same, a request that has found no place still has none, whatever was
// placed meanwhile. To know that it was the same all the time, read it before the attempt.
func (m *Mirror) Freed() uint64 {
	m.lockEngine()
	defer m.unlockEngine()
	return m.freed
}

// Holders returns a lookup of the Pods that hold something, by their names in the engine,
// for use within With.
func (m *Mirror) Holders() func(name string) (snapshot.Holder, bool) {
	return func(name string) (snapshot.Holder, bool) {
		e := m.pods[types.UID(name)]
		if e == nil {
			return snapshot.Holder{}, false
		}
		return snapshot.Holder{Pod: e.pod, Node: e.node}, true
	}
}

// OtherNodes returns the names of all nodes but the given ones, for use within With or For.
func (m *Mirror) OtherNodes(than map[string]bool) []string {
	var names []string
	for name := range m.nodes {
		if !than[name] {
			names = append(names, name)
		}
	}
	return names
}

// InUse returns how much of some GPUs is in use, or can't be used because the node is gone, in
// percent of a GPU. The GPUs are given by node.
func (m *Mirror) InUse(gpus map[string][]int) (percent int) {
	m.state.RLock()
	defer m.state.RUnlock()
	for name, cards := range gpus {
		n := m.nodes[name]
		if n == nil {
			percent += len(cards) * placement.Card
			continue
		}
		for _, e := range n.pods {
			percent += e.holds(cards)
		}
		if held := m.seated[name]; held != nil {
			for e := range held.seats {
				percent += e.holds(cards)
			}
		}
	}
	return percent
}

// holds returns how much a Pod holds of some cards of its node, in percent of a card.
func (e *entry) holds(cards []int) (percent int) {
	for _, card := range e.use.GPUs {
		if slices.Contains(cards, card) {
			percent += e.use.Percent
		}
	}
	return percent
}

// DomainOf returns the domain of a level, counted from 1, that contains all of the given
// Pods; empty if none does.
func (m *Mirror) DomainOf(uids []types.UID, level int) string {
	m.state.RLock()
	defer m.state.RUnlock()
	nodes := make([]string, 0, len(uids))
	for _, uid := range uids {
		if e := m.pods[uid]; e != nil {
			nodes = append(nodes, e.node)
		}
	}
	return m.DomainOfNodes(nodes, level)
}

// DomainOfNodes is DomainOf for nodes, for use within With or For.
func (m *Mirror) DomainOfNodes(nodes []string, level int) string {
	domain := ""
	for _, name := range nodes {
		n := m.nodes[name]
		if n == nil {
			continue
		}
		path := n.described.Domains
		if len(path) < level || path[level-1] == placement.Unnamed {
			return ""
		}
		current := strings.Join(path[:level], "/")
		if domain != "" && current != domain {
			return ""
		}
		domain = current
	}
	return domain
}

// Arriving returns the Pods with seats that the snapshot does not show yet.
func (m *Mirror) Arriving() []snapshot.Holder {
	m.state.RLock()
	defer m.state.RUnlock()
	var pods []snapshot.Holder
	for node, held := range m.seated {
		for e := range held.seats {
			pods = append(pods, snapshot.Holder{Pod: e.pod, Node: node})
		}
	}
	return pods
}

// HasSeats reports whether any seat is held whose Pod the snapshot does not show.
func (m *Mirror) HasSeats() bool {
	m.state.RLock()
	defer m.state.RUnlock()
	return len(m.seated) > 0
}

// Popular returns the most requested shapes, at most limit.
func (m *Mirror) Popular(limit int) []placement.Shape {
	m.lockEngine()
	defer m.unlockEngine()
	mix := m.policy.Mix().Popular()
	shapes := make([]placement.Shape, 0, limit)
	for _, one := range mix[:min(limit, len(mix))] {
		shapes = append(shapes, one.Request.Shape)
	}
	return shapes
}

// View returns a copy of the view by which nodes are translated for the engine.
func (m *Mirror) View() snapshot.NodeView {
	m.state.RLock()
	defer m.state.RUnlock()
	return m.view.Clone()
}

// Admissions returns a number that changes whenever something has changed that may decide which Pods a node admits,
// whether the engine considers it or only kube-scheduler's filters do: see filters.AdmissionChanged.
func (m *Mirror) Admissions() uint64 {
	m.state.RLock()
	defer m.state.RUnlock()
	return m.admissions
}

// NodesVersion returns a number that changes whenever what nodes offer has changed: nodes come and go, or have other
// GPUs, labels or taints.
func (m *Mirror) NodesVersion() uint64 {
	m.state.RLock()
	defer m.state.RUnlock()
	return m.nodesVersion
}

// RoomOf returns what the Pods of a plan will hold, by node.
func RoomOf(plan *placement.Plan) map[string]Withheld {
	nodes := map[string]Withheld{}
	for i := range plan.Members {
		place := &plan.Members[i].Place
		nodes[place.Node] = nodes[place.Node].Plus(WithheldFor(&place.Use))
	}
	return nodes
}
