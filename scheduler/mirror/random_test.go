// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// run is a random sequence of what happens to a cluster, with a mirror that follows
// it. At the end of each step the mirror has to be equal to one that is recreated.
type run struct {
	*world
	dice *rand.Rand
	log  []string
	m    *Mirror
	next int
	gpus map[string][]inventory.GPU
	// settled are Pods of which it is written which cards they have.
	settled map[string]*corev1.Pod
	// seats are Pods that have a seat: assumed or not.
	seats map[string]*seat
	clock *clocktesting.FakePassiveClock
	// devices are the GPUs that resource claims hold, by node.
	devices map[string][]string
	// watched is set once network adapters are counted.
	watched *placement.Shape
	// freed and room are the mirror's after the last step.
	freed uint64
	room  map[string]int
}

type seat struct {
	pod   *corev1.Pod
	place placement.Place
	// assumed is the Pod in the snapshot; nil before that.
	assumed *corev1.Pod
}

func newRun(t *testing.T, seed uint64) *run {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(beginning)
	r := &run{
		world: newWorld(t), dice: rand.New(rand.NewPCG(seed, 2)), m: mirrorAt(t, clock), clock: clock,
		gpus: map[string][]inventory.GPU{}, settled: map[string]*corev1.Pod{}, seats: map[string]*seat{}, devices: map[string][]string{},
	}
	for range 3 {
		r.nodeComes()
	}
	return r
}

// aNode returns a node with some network adapters.
func (r *run) aNode(name string) *corev1.Node {
	return withAdapters(aNode(r.t, name, r.gpus[name]), fmt.Sprint(r.dice.IntN(5)))
}

// watches makes the mirror count network adapters from now on.
func (r *run) watches() {
	r.watched = &placement.Shape{Others: placement.NewAmounts(map[string]int64{adapters: 1})}
	if !r.m.Watch(r.watched) {
		r.note("network adapters are counted")
	}
}

func (r *run) note(format string, args ...any) { r.log = append(r.log, fmt.Sprintf(format, args...)) }

func pickKey[V any](r *run, from map[string]V) (string, bool) {
	keys := slices.Sorted(maps.Keys(from))
	if len(keys) == 0 {
		return "", false
	}
	return keys[r.dice.IntN(len(keys))], true
}

func (r *run) nodeComes() {
	r.next++
	name := fmt.Sprintf("n%d", r.next%5)
	if r.infos[name] != nil {
		return
	}
	r.note("node %s comes", name)
	r.gpus[name] = cards(name, 4)
	r.set(r.aNode(name))
}

func (r *run) nodeGoes() {
	name, found := pickKey(r, r.gpus)
	if !found || len(r.gpus) < 2 {
		return
	}
	r.note("node %s goes", name)
	r.drop(name)
	delete(r.gpus, name)
	maps.DeleteFunc(r.settled, func(_ string, pod *corev1.Pod) bool { return pod.Spec.NodeName == name })
	maps.DeleteFunc(r.seats, func(_ string, s *seat) bool { return s.place.Node == name })
	if r.dice.IntN(2) == 0 {
		r.m.Refresh(r.snapshot())
		return
	}
	r.note("node %s is back before the next snapshot, without its Pods", name)
	for uid, e := range r.m.pods {
		if e.node == name {
			r.release(uid)
		}
	}
	r.gpus[name] = cards(name, 4)
	r.set(r.aNode(name))
}

func (r *run) nodeChanges() {
	name, found := pickKey(r, r.gpus)
	if !found {
		return
	}
	node := r.infos[name].Node().DeepCopy()
	switch r.dice.IntN(6) {
	case 0:
		node.Spec.Unschedulable = !node.Spec.Unschedulable
		r.note("node %s is closed: %t", name, node.Spec.Unschedulable)
	case 1:
		node.Labels[v1.LabelLeaf] = fmt.Sprint("leaf-", r.dice.IntN(3))
		r.note("node %s is in %s", name, node.Labels[v1.LabelLeaf])
	case 2:
		r.gpus[name] = slices.Clone(r.gpus[name])
		gpu := &r.gpus[name][r.dice.IntN(len(r.gpus[name]))]
		gpu.Health = map[string]string{inventory.Healthy: inventory.Unhealthy, inventory.Unhealthy: inventory.Healthy}[gpu.Health]
		r.note("card %s is %s", gpu.UUID, gpu.Health)
		node = withCards(r.t, node, r.gpus[name])
	case 3:
		r.gpus[name] = slices.Clone(r.gpus[name])
		r.dice.Shuffle(len(r.gpus[name]), func(i, j int) { r.gpus[name][i], r.gpus[name][j] = r.gpus[name][j], r.gpus[name][i] })
		r.note("the cards of node %s change places", name)
		node = withCards(r.t, node, r.gpus[name])
	case 4:
		node.Labels["touched"] = fmt.Sprint(r.next)
	case 5:
		node = withAdapters(node, fmt.Sprint(r.dice.IntN(5)))
	}
	r.set(node)
}

// reserves keeps places on a node, for Pods that there are, or were, or will be.
func (r *run) reserves() {
	name, found := pickKey(r, r.gpus)
	if !found {
		return
	}
	var list []reservation.Reservation
	for range r.dice.IntN(4) {
		one := moved(fmt.Sprintf("p%d", max(1, r.next-4+r.dice.IntN(8))))
		for _, i := range r.dice.Perm(len(r.gpus[name]))[:r.dice.IntN(3)] {
			one.GPUs = append(one.GPUs, r.gpus[name][i].UUID)
		}
		if r.dice.IntN(3) == 0 {
			one.Percent = 10 + 10*r.dice.IntN(9)
		}
		if r.dice.IntN(3) == 0 {
			one.Others = map[string]int64{adapters: 1}
		}
		if r.dice.IntN(3) == 0 {
			one.Kind = reservation.Start
		}
		one.Until = r.clock.Now().Add(time.Duration(r.dice.IntN(20)) * time.Second)
		list = append(list, one)
	}
	r.note("node %s keeps %+v", name, list)
	r.set(keeping(r.t, r.infos[name].Node(), list...))
}

// release gives a Pod's place back, now and then while a search goes on.
func (r *run) release(uid types.UID) {
	if r.dice.IntN(3) > 0 {
		r.m.Release([]types.UID{uid})
		return
	}
	r.m.With(func(*placement.Cluster) {
		pods := len(r.m.pods)
		r.m.Release([]types.UID{uid})
		if len(r.m.pods) != pods {
			r.t.Fatal("a search does not see what it began with")
		}
	})
}

// resourceClaims gives GPUs of a node to resource claims, or takes them back.
func (r *run) resourceClaims() {
	name, found := pickKey(r, r.gpus)
	if !found {
		return
	}
	var held []string
	for _, i := range r.dice.Perm(len(r.gpus[name]))[:r.dice.IntN(3)] {
		held = append(held, r.gpus[name][i].UUID)
	}
	slices.Sort(held)
	r.devices[name] = held
	r.note("resource claims hold %v of node %s", held, name)
	r.m.SetDevices(r.devices, nil)
}

// arrives adds a Pod that another scheduler has bound, or that ran before.
func (r *run) arrives() {
	name, found := pickKey(r, r.gpus)
	if !found {
		return
	}
	r.next++
	pod := r.anyPod()
	r.note("Pod %s arrives on node %s", pod.Name, name)
	pod = r.withAnyCards(pod, name)
	r.settled[pod.Name] = pod
	r.add(pod)
}

func (r *run) anyPod() *corev1.Pod {
	pod := r.withoutAdapters()
	if r.dice.IntN(2) == 0 {
		return pod
	}
	return needing(pod, fmt.Sprint(1+r.dice.IntN(2)))
}

func (r *run) withoutAdapters() *corev1.Pod {
	name := fmt.Sprintf("p%d", r.next)
	switch r.dice.IntN(4) {
	case 0:
		return aPod(name, 0, 0)
	case 1:
		return aPod(name, 0, 10+10*r.dice.IntN(6))
	default:
		return aPod(name, 1+r.dice.IntN(2), 0)
	}
}

// withAnyCards assigns some cards to a Pod, perhaps used ones.
func (r *run) withAnyCards(pod *corev1.Pod, node string) *corev1.Pod {
	requests := pod.Spec.Containers[0].Resources.Requests
	whole, shared := requests[v1.ResourceGPU], requests[v1.ResourceGPUPercent]
	count := int(whole.Value())
	if !shared.IsZero() {
		count = 1
	}
	var uuids []string
	for _, i := range r.dice.Perm(4)[:count] {
		uuids = append(uuids, r.gpus[node][i].UUID)
	}
	return on(r.t, pod, node, uuids...)
}

func (r *run) corrected() {
	name, found := pickKey(r, r.settled)
	if !found {
		return
	}
	before := r.settled[name]
	after := r.withAnyCards(before, before.Spec.NodeName)
	r.note("the cards of Pod %s are corrected", name)
	r.change(before, after)
	r.settled[name] = after
}

func (r *run) leaves() {
	name, found := pickKey(r, r.settled)
	if !found {
		return
	}
	r.note("Pod %s has gone", name)
	r.remove(r.settled[name])
	delete(r.settled, name)
	r.release(types.UID(name)) // no snapshot may have shown it
}

// seats a Pod, as the planner does at the beginning of a cycle.
func (r *run) seated() {
	r.m.Refresh(r.snapshot())
	name, found := pickKey(r, r.gpus)
	if !found {
		return
	}
	r.next++
	pod := r.anyPod()
	place, found := placeFor(r.t, r.m, pod, name)
	if !found {
		return
	}
	r.note("Pod %s gets a seat on node %s, cards %v", pod.Name, name, place.GPUs)
	r.m.Hold(pod, place)
	r.seats[pod.Name] = &seat{pod: pod, place: place}
}

// goesOn takes the next step of a Pod with a seat.
func (r *run) goesOn() {
	name, found := pickKey(r, r.seats)
	if !found {
		return
	}
	s := r.seats[name]
	switch {
	case s.assumed == nil && r.dice.IntN(3) > 0:
		r.note("Pod %s is assumed", name)
		s.assumed = on(r.t, s.pod, s.place.Node)
		r.add(s.assumed)
	case r.dice.IntN(3) == 0:
		r.note("Pod %s gives its seat back", name)
		r.release(types.UID(name))
		if s.assumed != nil {
			r.remove(s.assumed)
		}
		delete(r.seats, name)
	case s.assumed != nil:
		text, err := r.m.Assignment(s.pod)
		if err != nil {
			r.t.Fatalf("Pod %s can't be bound: %v", name, err)
		}
		r.note("Pod %s is bound", name)
		bound := s.assumed.DeepCopy()
		if text != "" {
			bound.Annotations = map[string]string{inventory.AssignmentAnnotation: text}
		}
		r.change(s.assumed, bound)
		r.settled[name] = bound
		delete(r.seats, name)
	}
}

func (r *run) act() {
	switch r.dice.IntN(19) {
	case 0:
		r.nodeComes()
	case 1:
		r.nodeGoes()
	case 2, 3:
		r.nodeChanges()
	case 4:
		r.arrives()
	case 5:
		r.corrected()
	case 6, 7:
		r.leaves()
	case 8, 9:
		r.seated()
	case 10, 11:
		r.reserves()
	case 12:
		r.note("some time passes")
		r.clock.SetTime(r.clock.Now().Add(5 * time.Second))
	case 13:
		r.watches()
	case 14, 15:
		r.resourceClaims()
	default:
		r.goesOn()
	}
}

// checkFreed checks that there is no more room than before unless the mirror says so.
func (r *run) checkFreed() {
	r.t.Helper()
	now := room(r.m)
	if freed := r.m.Freed(); freed != r.freed {
		r.freed = freed
	} else {
		for shape, pods := range now {
			if pods > r.room[shape] {
				r.t.Fatalf("%d Pods with %s fit, %d did before, and nothing was freed", pods, shape, r.room[shape])
			}
		}
	}
	r.room = now
}

// check compares the mirror with one that sees the cluster for the first time.
// checkPriorities compares the counts with the Pods.
func (r *run) checkPriorities() {
	r.t.Helper()
	want := map[int32]int{}
	for _, e := range r.m.pods {
		want[schedulingv1.PodPriority(e.pod)]++
	}
	if diff := cmp.Diff(want, r.m.priorities); diff != "" {
		r.t.Fatalf("Pods by priority (-want +got):\n%s", diff)
	}
}

func (r *run) check() {
	r.t.Helper()
	r.m.Refresh(r.snapshot())
	r.checkFreed()
	r.checkPriorities()
	rebuilt := mirrorAt(r.t, r.clock)
	rebuilt.SetDevices(r.devices, nil)
	if r.watched != nil {
		rebuilt.Watch(r.watched)
	}
	w := newWorld(r.t)
	for _, name := range r.names {
		w.set(r.infos[name].Node())
	}
	for _, name := range slices.Sorted(maps.Keys(r.settled)) {
		w.add(r.settled[name])
	}
	rebuilt.Refresh(w.snapshot())
	seated := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(r.seats)) {
		s := r.seats[name]
		e := r.m.pods[types.UID(name)]
		if e == nil {
			r.t.Fatalf("the seat of Pod %s is lost", name)
		}
		rebuilt.Hold(s.pod, placement.Place{Node: e.node, Use: e.use}) // its cards may have changed places
		if s.assumed == nil {
			seated[s.place.Node]++
		} else {
			w.add(s.assumed)
		}
	}
	rebuilt.Refresh(w.snapshot())
	if diff := cmp.Diff(room(rebuilt), room(r.m)); diff != "" {
		r.t.Fatalf("room (-rebuilt +followed):\n%s", diff)
	}
	if diff := cmp.Diff(rebuilt.BlockingKey(&Requester{}), r.m.BlockingKey(&Requester{})); diff != "" {
		r.t.Fatalf("reservations that count (-rebuilt +followed):\n%s", diff)
	}
	for _, name := range r.names {
		if diff := cmp.Diff(seatedOn(rebuilt, name), seatedOn(r.m, name)); diff != "" {
			r.t.Fatalf("withheld on node %s (-rebuilt +followed):\n%s", name, diff)
		}
		if got := seatedOn(r.m, name).Pods; got != seated[name] {
			r.t.Fatalf("%d seats of node %s are withheld, want %d", got, name, seated[name])
		}
	}
	r.checkIndex()
}

// checkIndex compares the index of Pods by node with the Pods.
func (r *run) checkIndex() {
	r.t.Helper()
	on := map[types.UID]bool{}
	for _, n := range r.m.nodes {
		r.m.eachOn(n, func(uid types.UID, e *entry) { on[uid] = e.node == n.described.Name && r.m.pods[uid] == e && !on[uid] })
	}
	for uid, e := range r.m.pods {
		if !on[uid] {
			r.t.Fatalf("Pod %s is not found, or twice, among those on node %s", uid, e.node)
		}
	}
	if got, want := len(r.m.pods), len(r.settled)+len(r.seats); got != want || len(r.m.nodes) != len(r.names) {
		r.t.Fatalf("%d Pods and %d nodes are remembered, there are %d and %d", got, len(r.m.nodes), want, len(r.names))
	}
}

func TestTheMirrorEqualsOneThatIsMadeAnew(t *testing.T) {
	t.Parallel()
	seeds := uint64(300)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		passed := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := newRun(t, seed)
			defer func() {
				if t.Failed() {
					t.Logf("steps:\n%s", strings.Join(r.log, "\n"))
				}
			}()
			for range 60 {
				for range 1 + r.dice.IntN(3) {
					r.act()
				}
				r.check()
			}
		})
		if !passed {
			return // one is enough to look at
		}
	}
}
