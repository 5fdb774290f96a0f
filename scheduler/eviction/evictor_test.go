// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

var beginning = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// fixture is an Evictor of a process that may act.
type fixture struct {
	*Evictor
	client   *fake.Clientset
	recorder *events.FakeRecorder
	registry *gangs.Registry
	// woken is how often gangs were woken.
	woken int
}

func newFixture(t *testing.T, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{client: fake.NewClientset(objects...), recorder: events.NewFakeRecorder(100), registry: gangs.NewRegistry(gangs.Timing{})}
	f.registry.Serve("gpu-scheduler")
	f.registry.Start()
	f.Evictor = NewEvictor(Sources{
		Client: f.client, Informers: informers.NewSharedInformerFactory(f.client, 0), Events: f.recorder, Clock: clocktesting.NewFakeClock(beginning),
		Logger: ktesting.NewLogger(t, ktesting.NewConfig()), Registry: f.registry, MayAct: func() bool { return true },
		Has: func(pod *corev1.Pod) bool { return pod.Name != "gone" },
		Do:  func(gangs.Actions) {}, Activate: func([]*corev1.Pod) {}, Wake: func() { f.woken++ },
		Abandon: func(string, []types.UID) {}, Count: func() {},
	})
	return f
}

// member returns a member of a gang with a GPU, on a node if one is named.
func member(gang string, minimum, index int, node string) *corev1.Pod {
	name := gang + "-" + strconv.Itoa(index)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{
		v1.LabelPodGroup: gang, v1.LabelMinAvailable: strconv.Itoa(minimum), v1.LabelIndex: strconv.Itoa(index),
	}}}
	p.Spec.SchedulerName, p.Spec.NodeName = "gpu-scheduler", node
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		v1.ResourceGPU: resource.MustParse("1"),
	}}}}
	return p
}

func TestAPartialGangIsEvictedWithRespectForBudgets(t *testing.T) {
	t.Parallel()
	bound := []*corev1.Pod{member("train", 4, 0, "a"), member("train", 4, 1, "a")}
	f := newFixture(t, bound[0], bound[1])
	var evicted []string
	f.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		eviction := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction) //nolint:forcetypeassert // by the subresource
		if uid := eviction.DeleteOptions.Preconditions.UID; uid == nil || string(*uid) != eviction.Name {
			t.Errorf("Pod %s is evicted whatever its UID is", eviction.Name)
		}
		if eviction.Name == "train-1" {
			return true, nil, apierrors.NewTooManyRequests("its budget", 1)
		}
		evicted = append(evicted, eviction.Name)
		return true, nil, nil
	})
	for _, one := range append(bound, member("train", 4, 2, ""), member("train", 4, 3, "")) {
		f.registry.Observe(one)
	}
	f.evictPartial(t.Context(), bound)
	if diff := cmp.Diff([]string{"train-0"}, evicted); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
	if attempt := f.registry.Attempt("train-2"); attempt == nil || len(attempt.Placed) != 1 {
		t.Errorf("attempt %+v, want one beside the Pod that stays", attempt)
	}
	if got := len(f.recorder.Events); got != 2 {
		t.Errorf("%d events, want one for each Pod", got)
	}
}

func TestWhoIsGoneIsNotMarked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	there, gone := member("one", 1, 0, "a"), member("other", 1, 0, "a")
	gone.Name = "gone"
	f.Begin("group", []*corev1.Pod{there, gone}, f.Budgets())
	if !f.registry.Terminating(there.UID) || f.registry.Terminating(gone.UID) {
		t.Errorf("marked: %t, and %t of the one that is gone", f.registry.Terminating(there.UID), f.registry.Terminating(gone.UID))
	}
}

func TestABudgetThatAllowsMoreWakesThoseThatAwaitIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	spent := &policyv1.PodDisruptionBudget{}
	raised := spent.DeepCopy()
	raised.Status.DisruptionsAllowed = 1
	f.BudgetUpdated(spent, raised) // nobody waits
	f.AwaitBudgets()
	f.BudgetUpdated(raised, spent)
	before := f.BudgetsRaised()
	f.BudgetUpdated(spent, raised)
	f.BudgetUpdated(spent, raised)
	if f.woken != 1 || f.BudgetsRaised() == before {
		t.Errorf("woken %d times, want once; raised %d times", f.woken, f.BudgetsRaised())
	}
}

func TestNominationsEndWhenNodesAreNoLongerKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	leader, other := member("gang", 2, 0, ""), member("gang", 2, 1, "")
	f.registry.Observe(leader)
	f.registry.Observe(other)
	f.Nominate(t.Context(), f.registry.Member(leader.UID).Group().Key, map[types.UID]string{leader.UID: "a"}, leader.UID)
	f.EndNominations(t.Context(), func(string) bool { return true })
	if node := f.Nominated(leader); node != "a" || f.Nominated(other) != "" {
		t.Errorf("nominated for %q and %q", node, f.Nominated(other))
	}
	f.EndNominations(t.Context(), func(string) bool { return false })
	if node := f.Nominated(leader); node != "" || len(f.nominations.byGroup) > 0 {
		t.Errorf("at the end: nominated for %q, %d groups", node, len(f.nominations.byGroup))
	}
}

func TestNominationsFromBeforeARestartEndWhenTheyAreInTheWay(t *testing.T) {
	t.Parallel()
	nominated := func(gang, node string) *corev1.Pod {
		p := member(gang, 1, 0, "")
		p.Status.NominatedNodeName = node
		return p
	}
	stale, kept, elsewhere := nominated("stale", "a"), nominated("kept", "a"), nominated("elsewhere", "b")
	f := newFixture(t, stale, kept, elsewhere)
	woken := make(chan struct{})
	f.sources.Wake = func() { close(woken) }
	cleared := make(chan string, 10)
	f.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		cleared <- action.(clienttesting.PatchAction).GetName() //nolint:forcetypeassert // by its verb
		return true, stale, nil
	})
	for _, p := range []*corev1.Pod{stale, kept, elsewhere} {
		f.registry.Observe(p)
	}
	f.EndStaleNominations(t.Context(), "a", func(group string) bool { return group == f.registry.Member(kept.UID).Group().Key })
	<-woken
	close(cleared)
	var got []string
	for name := range cleared {
		got = append(got, name)
	}
	if diff := cmp.Diff([]string{"stale-0"}, got); diff != "" {
		t.Errorf("cleared (-want +got):\n%s", diff)
	}
}

func TestAVictimLearnsForWhomItLeaves(t *testing.T) {
	t.Parallel()
	of := func(namespace, task string) *corev1.Pod {
		preemptor := member("big", 1, 0, "")
		preemptor.Namespace, preemptor.Spec.Priority = namespace, new(int32(100))
		if task != "" {
			preemptor.Labels[v1.LabelTask] = task
		}
		return preemptor
	}
	tests := map[string]struct {
		preemptor   *corev1.Pod
		want, event string
	}{
		"a task of its namespace":      {of("default", "big"), "task big (priority 100) needs its place", "Normal Preempted Preempted: task big (priority 100) needs its place"},
		"another Pod of its namespace": {of("default", ""), "Pod big-0 (priority 100) needs its place", "Normal Preempted Preempted: Pod big-0 (priority 100) needs its place"},
		"one of another namespace": {
			of("secret", "big"), "a Pod of another namespace (priority 100) needs its place", "Normal Preempted Preempted: a Pod of another namespace (priority 100) needs its place",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			victim := member("small", 1, 0, "a")
			f := newFixture(t, victim)
			message := ""
			f.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				var patch corev1.Pod
				if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &patch); err != nil { //nolint:forcetypeassert // by its verb
					t.Error(err)
				}
				message = patch.Status.Conditions[0].Message
				return true, victim, nil
			})
			f.stopAll(t.Context(), test.preemptor, []*corev1.Pod{victim}, nil)
			if message != test.want {
				t.Errorf("its condition says %q, want %q", message, test.want)
			}
			if event := <-f.recorder.Events; event != test.event {
				t.Errorf("the Event is %q, want %q", event, test.event)
			}
		})
	}
}
