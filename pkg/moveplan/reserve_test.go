// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// kept returns the reservations on all nodes, as text.
func (m *model) kept() []string {
	var texts []string
	for name, node := range m.nodes {
		list, err := reservation.Of(node)
		if err != nil {
			texts = append(texts, name+": "+err.Error())
		}
		for i := range list {
			texts = append(texts, fmt.Sprintf("%s: %s %s", name, list[i].Kind, list[i].Pod))
		}
	}
	slices.Sort(texts)
	return texts
}

// stain writes the reservations that a deleted plan has left behind.
func stain(node, value string) func(*model) {
	return func(m *model) { m.nodes[node].Annotations[reservation.Annotation] = value }
}

const ofAnother = `[{"plan":"another","pod":"default/x","kind":"Move","cards":1,"until":"2026-11-21T13:00:00Z"}]`

func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	type list = []func(*model)
	late := later(int((moveTimeout + 40*time.Second) / time.Second))
	all := []string{"n0: Start default/gang-0", "n0: Start default/pending", "n1: Move default/gang-0", "n1: Move default/gang-1", "n1: Move default/single"}
	tests := map[string]struct {
		given list
		want  []string
	}{
		"nothing for a proposal":                    {given: list{at(v1.PlanProposed, waiting, waiting, waiting)}},
		"nothing before the plan is carried out":    {given: list{at(v1.PlanApproved, waiting, waiting, waiting)}},
		"all places, old ones, too":                 {given: list{at(v1.PlanExecuting, waiting, waiting, waiting)}, want: all},
		"all places while Pods are on their way":    {given: list{at(v1.PlanExecuting, evicted, evicted, waiting)}, want: all},
		"nothing for those that have arrived":       {given: list{at(v1.PlanExecuting, moved, moved, waiting), replaced}, want: []string{"n0: Start default/pending", "n0: Start default/single", "n1: Move default/single"}},
		"nothing for a task that has its nodes":     {given: list{at(v1.PlanExecuting, moved, moved, waiting), replaced, startedPending}, want: []string{"n0: Start default/single", "n1: Move default/single"}},
		"nothing for a task that is suspended":      {given: list{at(v1.PlanExecuting, waiting, waiting, waiting), suspended("gang"), deleted("pending")}, want: []string{"n1: Move default/single"}},
		"nothing where the scheduler chooses":       {given: list{recreating, at(v1.PlanExecuting, evicted, evicted, waiting)}},
		"nothing for a plan that has ended":         {given: list{at(v1.PlanExecuting, moved, moved, moved), placesKept, at(v1.PlanDone, moved, moved, moved)}},
		"nothing of a plan that is gone":            {given: list{at(v1.PlanExecuting, waiting, waiting, waiting), stain("n1", ofAnother), stain("n2", ofAnother)}, want: all},
		"an invalid annotation is rewritten":        {given: list{at(v1.PlanExecuting, waiting, waiting, waiting), stain("n1", "{"), stain("n2", "{")}, want: all},
		"those on their way when a plan stops":      {given: list{at(v1.PlanExecuting, evicted, skipped, skipped), stopping}, want: []string{"n0: Start default/gang-0", "n1: Move default/gang-0"}},
		"their old places when the others are lost": {given: list{at(v1.PlanExecuting, evicted, skipped, skipped), stopping, cordoned("n1")}, want: []string{"n0: Start default/gang-0"}},
		"a gang is not split": {
			given: list{at(v1.PlanExecuting, evicted, evicted, skipped), toThird("gang-1"), stopping, cordoned("n2")},
			want:  []string{"n0: Start default/gang-0", "n1: Start default/gang-1"},
		},
		"their old places when it is too late": {given: list{at(v1.PlanExecuting, evicted, skipped, skipped), stopping, late}, want: []string{"n0: Start default/gang-0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, 1)
			m.documents()
			for _, change := range test.given {
				change(m)
			}
			m.reserve()
			if diff := cmp.Diff(test.want, m.kept()); diff != "" {
				t.Errorf("reservations (-want +got):\n%s", diff)
			}
			version := m.version
			if m.reserve(); m.version != version {
				t.Error("a second look writes again")
			}
		})
	}
}

// toThird gives a move another destination.
func toThird(pod string) func(*model) {
	return func(m *model) {
		for i := range m.plan.Spec.Moves {
			if move := &m.plan.Spec.Moves[i]; move.Pod == pod {
				move.To.Node = "n2"
			}
		}
	}
}

func TestReservationsOfOtherNamespacesAreLeftAlone(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1)
	m.documents()
	at(v1.PlanDone, moved, moved, moved)(m)
	const others = `[{"plan":"p","pod":"default/x","kind":"Move","until":"2026-11-21T13:00:00Z"},{"plan":"q","pod":"default2/x","kind":"Move","until":"2026-11-21T13:00:00Z"}]`
	stain("n0", others)(m)
	in := m.input()
	in.Objects.Now = m.now
	for namespace, want := range map[string]string{
		"default": `[{"plan":"q","pod":"default2/x","kind":"Move","until":"2026-11-21T13:00:00Z"}]`, "": "", "third": "unchanged",
	} {
		changes, err := Reservations(in.Objects, namespace, moveTimeout)
		if err != nil {
			t.Fatal(err)
		}
		got := "unchanged"
		if len(changes) > 0 {
			got = changes[0].Value
		}
		if got != want {
			t.Errorf("namespace %q: %s, want %s", namespace, got, want)
		}
	}
}

func TestWhatAReservationSays(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*v1.GPUTask, *corev1.Pod, *v1.MovePlace)
		want   reservation.Reservation
	}{
		"whole GPUs of a node without an agent": {
			func(*v1.GPUTask, *corev1.Pod, *v1.MovePlace) {},
			reservation.Reservation{Cards: 1, Percent: 100},
		},
		"whole GPUs by their names": {
			func(_ *v1.GPUTask, _ *corev1.Pod, to *v1.MovePlace) { to.GPUs = []string{"GPU-a"} },
			reservation.Reservation{GPUs: []string{"GPU-a"}, Percent: 100},
		},
		"a share": {
			func(_ *v1.GPUTask, pod *corev1.Pod, to *v1.MovePlace) {
				to.GPUs = []string{"GPU-a"}
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{v1.ResourceGPUPercent: resource.MustParse("46")}
			},
			reservation.Reservation{GPUs: []string{"GPU-a"}, Percent: 46},
		},
		"a share of a node without an agent": {
			func(_ *v1.GPUTask, pod *corev1.Pod, _ *v1.MovePlace) {
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{v1.ResourceGPUPercent: resource.MustParse("46")}
			},
			reservation.Reservation{Cards: 1, Percent: 46},
		},
		"CPU, memory and priority": {
			func(_ *v1.GPUTask, pod *corev1.Pod, _ *v1.MovePlace) {
				pod.Spec.Priority = new(int32(10))
				pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1500m")
				pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Gi")
			},
			reservation.Reservation{Cards: 1, Percent: 100, CPU: 1500, Memory: 1024, Priority: 10},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, 1)
			m.documents()
			at(v1.PlanExecuting, skipped, skipped, waiting)(m)
			test.change(m.tasks["single"], m.pods["single"], &m.plan.Spec.Moves[single].To)
			m.reserve()
			got, err := reservation.Of(m.nodes["n1"])
			if err != nil || len(got) != 1 {
				t.Fatalf("reservations %+v, error %v", got, err)
			}
			want := test.want
			want.Plan, want.Pod, want.Kind = "plan", "default/single", reservation.Move
			// One turn with 30 s of grace and 10 s for the controller, and the task's start.
			want.Until = testTime.Add(2*moveTimeout + 40*time.Second)
			if diff := cmp.Diff(want, got[0]); diff != "" {
				t.Errorf("reservation (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReservationsAreRenewedWhenHalfOfTheirTimeIsOver(t *testing.T) {
	t.Parallel()
	m := newModel(t, 1)
	m.documents()
	at(v1.PlanExecuting, waiting, waiting, waiting)(m)
	span := 3*moveTimeout + 80*time.Second
	for _, test := range []struct {
		after   time.Duration
		renewed bool
		gone    bool
	}{{0, true, false}, {span/2 - time.Second, false, false}, {span/2 + time.Second, true, false}, {span + 2*time.Second, true, true}} {
		m.now = testTime.Add(test.after)
		if test.gone {
			delete(m.pods, "single") // between a Pod and its replacement
		}
		m.reserve()
		list, err := reservation.Of(m.nodes["n1"])
		if err != nil || len(list) != 3 {
			t.Fatalf("reservations %+v, error %v", list, err)
		}
		for i := range list {
			if renewed := list[i].Until.Equal(m.now.Add(span)); renewed != test.renewed {
				t.Errorf("after %v: until %v, renewed %t", test.after, list[i].Until, renewed)
			}
		}
	}
}

func TestOutdatedPlans(t *testing.T) {
	t.Parallel()
	ended := func(name string, phase v1.MovePlanPhase, age time.Duration) *v1.MovePlan {
		plan := &v1.MovePlan{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.MovePlanStatus{Phase: phase}}
		if phase == v1.PlanDone || phase == v1.PlanAborted {
			plan.Status.CompletionTime = &metav1.Time{Time: testTime.Add(-age)}
		}
		return plan
	}
	plans := []*v1.MovePlan{
		ended("new", v1.PlanDone, time.Minute), ended("older", v1.PlanAborted, 30*time.Minute), ended("old", v1.PlanDone, 2*time.Hour),
		ended("oldest", v1.PlanAborted, 25*time.Hour), ended("proposed", v1.PlanProposed, 0), ended("executing", v1.PlanExecuting, 0),
	}
	tests := map[string]struct {
		keep  time.Duration
		limit int
		want  string
	}{
		"those older than is kept":           {24 * time.Hour, 100, "oldest"},
		"the oldest of too many":             {48 * time.Hour, 3, "oldest"},
		"those of the last hour are kept":    {time.Minute, 1, "old,oldest"},
		"those of the last hour, of any age": {0, 0, "old,oldest"},
		"none":                               {48 * time.Hour, 4, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, plan := range Outdated(plans, test.keep, test.limit, testTime) {
				got = append(got, plan.Name)
			}
			if text := strings.Join(got, ","); text != test.want {
				t.Errorf("outdated: %q, want %q", text, test.want)
			}
		})
	}
}

func TestDestinations(t *testing.T) {
	t.Parallel()
	owner := func(uid string) *metav1.OwnerReference {
		return &metav1.OwnerReference{UID: reference(makeTask(uid, 1, 1)).UID}
	}
	tests := map[string]struct {
		phase  v1.MovePlanPhase
		states []v1.MoveState
		pod    string
		owner  *metav1.OwnerReference
		want   string
	}{
		"of a Pod that was evicted":            {v1.PlanExecuting, []v1.MoveState{evicted, evicted, waiting}, "gang-0", owner("gang"), "n1"},
		"not of one that waits for its turn":   {v1.PlanExecuting, []v1.MoveState{moved, moved, waiting}, "single", owner("single"), ""},
		"not of one that has arrived":          {v1.PlanExecuting, []v1.MoveState{moved, moved, waiting}, "gang-0", owner("gang"), ""},
		"not of another task of the same name": {v1.PlanExecuting, []v1.MoveState{evicted, evicted, waiting}, "gang-0", owner("gang2"), ""},
		"not of others":                        {v1.PlanExecuting, []v1.MoveState{evicted, evicted, evicted}, "other", owner("other"), ""},
		"not by a plan that has ended":         {v1.PlanAborted, []v1.MoveState{evicted, evicted, skipped}, "gang-0", owner("gang"), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, 1)
			m.documents()
			at(test.phase, test.states...)(m)
			got := Destination([]*v1.MovePlan{m.plan}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: test.pod, Namespace: "default"}}, test.owner)
			if got != test.want {
				t.Errorf("destination %q, want %q", got, test.want)
			}
		})
	}
}

func TestSteeringAddsAPreference(t *testing.T) {
	t.Parallel()
	ours := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Affinity: ours}}
	Steer(pod, "n1")
	terms := pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 2 || terms[1].Weight != 100 || terms[1].Preference.MatchFields[0].Values[0] != "n1" {
		t.Errorf("terms %+v", terms)
	}
	if len(ours.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Error("the task's template was changed")
	}
	alone := &corev1.Pod{}
	if Steer(alone, ""); alone.Spec.Affinity != nil {
		t.Error("a Pod without a destination was steered")
	}
	if Steer(alone, "n1"); alone.Spec.Affinity == nil {
		t.Error("a Pod without an affinity was not steered")
	}
}

func TestUnusable(t *testing.T) {
	t.Parallel()
	ready := func(status corev1.ConditionStatus) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	}
	tests := map[string]struct {
		conditions []corev1.NodeCondition
		cordoned   bool
		isThere    bool
		want       string
	}{
		"a ready node":                      {ready(corev1.ConditionTrue), false, false, ""},
		"a node that is not ready":          {ready(corev1.ConditionFalse), false, false, "node n is not ready"},
		"a node that has said nothing":      {nil, false, false, "node n is not ready"},
		"a cordoned node":                   {ready(corev1.ConditionTrue), true, false, "node n is cordoned"},
		"a cordoned node with the Pod here": {ready(corev1.ConditionTrue), true, true, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Unschedulable: test.cordoned}, Status: corev1.NodeStatus{Conditions: test.conditions}}
			if got := unusable([]*corev1.Node{node}, "n", test.isThere); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
