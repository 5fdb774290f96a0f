// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// ours is the name under which the registries of these tests schedule.
const ours = "gpu-scheduler"

var (
	begin  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	timing = Timing{Partial: 10 * time.Minute, Again: 30 * time.Second, MaxRefusals: 2}
)

// pod returns a Pod that wants one GPU; its UID is its name.
func pod(name string, options ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(begin), Labels: map[string]string{},
	}}
	p.Spec.SchedulerName = ours
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{v1.ResourceGPU: resource.MustParse("1")},
	}}}
	for _, option := range options {
		option(p)
	}
	return p
}

// Failing returns how many gangs have found no place.
func (f *fixture) Failing() (count int) {
	for _, g := range f.groups {
		if !g.retry.failedAt.IsZero() {
			count++
		}
	}
	return count
}

// in makes a Pod the member of a gang, with an index.
func in(gang string, minimum, index int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels[v1.LabelPodGroup], p.Labels[v1.LabelMinAvailable] = gang, strconv.Itoa(minimum)
		p.Labels[v1.LabelIndex] = strconv.Itoa(index)
	}
}

func prioritized(priority int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &priority }
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func created(after time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(begin.Add(after)) }
}

// onNode returns the Pod as it is once it is bound.
func onNode(p *corev1.Pod, node string) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

// ending returns the Pod as it is once it is being deleted.
func ending(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	now := metav1.NewTime(begin)
	p.DeletionTimestamp = &now
	return p
}

// gangOf returns the Pods of a gang: train-0, train-1 and so on.
func gangOf(name string, count, minimum int) []*corev1.Pod {
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("%s-%d", name, i), in(name, minimum, i))
	}
	return pods
}

// fixture is a registry with a clock. Its methods fail the test if a step is impossible
// that the test takes for granted.
type fixture struct {
	t testing.TB
	*Registry
	clock clock.PassiveClock
	// never is true if attempts in vain find that nothing else would have to run.
	never bool
	step  func(time.Duration)
}

func newFixture(tb testing.TB, pods ...*corev1.Pod) *fixture {
	tb.Helper()
	fake := clocktesting.NewFakePassiveClock(begin)
	f := &fixture{t: tb, Registry: NewRegistry(timing), clock: fake, step: func(d time.Duration) { fake.SetTime(fake.Now().Add(d)) }}
	f.Serve(ours)
	f.Start()
	for _, p := range pods {
		f.Observe(p)
	}
	return f
}

func (f *fixture) now() time.Time { return f.clock.Now() }

// gate returns "" or why a Pod may not be queued.
func (f *fixture) gate(p *corev1.Pod) string { return f.Gate(p, f.now()) }

// seat plans for the Pod whose turn it is: the first count waiting ones get a seat.
func (f *fixture) seat(turn *corev1.Pod, count int) Actions {
	f.t.Helper()
	attempt := f.Attempt(turn.UID)
	if attempt == nil {
		f.t.Fatalf("there is nothing to plan for Pod %s", turn.Name)
		return Actions{}
	}
	number, actions := f.Seat(attempt.Group, attempt.Waiting[:count], placesFor(count), turn.UID, f.now())
	if number == 0 {
		f.t.Fatalf("the gang of Pod %s could not take its seats", turn.Name)
	}
	return actions
}

func placesFor(count int) []placement.Place {
	places := make([]placement.Place, count)
	for i := range places {
		places[i].Node = fmt.Sprintf("node-%d", i)
	}
	return places
}

// barrier brings a Pod to the barrier with its seat.
func (f *fixture) barrier(p *corev1.Pod) Arrival {
	seat, _ := f.SeatOf(p.UID)
	return f.Barrier(p.UID, seat.Plan)
}

// pass brings a Pod to the barrier, where it has to wait.
func (f *fixture) pass(p *corev1.Pod) {
	f.t.Helper()
	if arrival := f.barrier(p); arrival.Open || arrival.Refused {
		f.t.Fatalf("Pod %s at the barrier: %+v, want that it waits", p.Name, arrival)
	}
}

// withdraw gives up a Pod's seat.
func (f *fixture) withdraw(p *corev1.Pod) Actions {
	seat, _ := f.SeatOf(p.UID)
	return f.Withdraw(p.UID, seat.Plan).Actions
}

// refuse records that the node of a Pod's seat does not take it.
func (f *fixture) refuse(p *corev1.Pod, node string) (retry bool, actions Actions) {
	seat, _ := f.SeatOf(p.UID)
	return f.Refuse(p.UID, seat.Plan, node)
}

// fail records that an attempt found no place.
func (f *fixture) fail(turn *corev1.Pod, pause time.Duration) {
	f.t.Helper()
	attempt := f.Attempt(turn.UID)
	if attempt == nil {
		f.t.Fatalf("there is nothing to plan for Pod %s", turn.Name)
		return
	}
	f.Fail(attempt.Group, f.now(), f.now().Add(pause))
}

// seated returns the names of the Pods that have a seat, sorted.
func (f *fixture) seated() []string {
	names := []string{}
	for uid, m := range f.members {
		if m.seat != nil {
			names = append(names, string(uid))
		}
	}
	slices.Sort(names)
	return names
}

// due returns the names of the Pods that are to be requeued.
func (f *fixture) due() []string { return namesOf(f.Due(f.now(), 100)) }

func namesOf(pods []*corev1.Pod) []string {
	names := []string{}
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

// done is Actions in names, in a fixed order.
type done struct{ Activate, Reject, Release []string }

func inNames(actions Actions) done {
	d := done{Activate: namesOf(actions.Activate), Reject: uidNames(actions.Reject), Release: uidNames(actions.Release)}
	slices.Sort(d.Activate)
	return d
}

func uidNames(uids []types.UID) []string {
	names := []string{}
	for _, uid := range uids {
		names = append(names, string(uid))
	}
	slices.Sort(names)
	return names
}

func nothing() done { return done{Activate: []string{}, Reject: []string{}, Release: []string{}} }
