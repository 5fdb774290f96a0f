// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// podsOf returns Pods that name a PodGroup: train-0, train-1 and so on.
func podsOf(ref snapshot.GroupRef, count int) []*corev1.Pod {
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("%s-%d", ref.Name, i), inPodGroup(ref), func(p *corev1.Pod) { p.Labels[v1.LabelIndex] = fmt.Sprint(i) })
	}
	return pods
}

func together(ref snapshot.GroupRef, minimum int) *snapshot.GangLabels {
	return &snapshot.GangLabels{Name: ref.Gang(), Min: minimum}
}

func volcanoGroup() snapshot.GroupRef {
	return snapshot.GroupRef{API: snapshot.VolcanoGroups, Namespace: "default", Name: "train"}
}

func TestAPodGroupMakesAGang(t *testing.T) {
	t.Parallel()
	for _, ref := range []snapshot.GroupRef{kubernetesGroup("train"), volcanoGroup(), coschedulingGroup("train")} {
		t.Run(string(ref.API), func(t *testing.T) {
			t.Parallel()
			pods := podsOf(ref, 3)
			f := newFixture(t, pods[:2]...)
			f.ObserveGroup(ref, together(ref, 3), nil)
			f.SetGroups(ref.API, GroupsListed)
			if why := f.gate(pods[0]); !strings.Contains(why, "has 2 of the 3 Pods that start together") {
				t.Errorf("two of three: %q", why)
			}
			if diff := cmp.Diff([]string{"train-0"}, inNames(f.Observe(pods[2])).Activate); diff != "" {
				t.Errorf("queued when the third comes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(&wanted{Waiting: []string{"train-0", "train-1", "train-2"}, Placed: []string{}, Need: 3}, whatOf(f.Attempt("train-0"))); diff != "" {
				t.Errorf("attempt (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPodWithoutGPUsIsAMemberOfItsPodGroup(t *testing.T) {
	t.Parallel()
	ref := kubernetesGroup("train")
	launcher := pod("launcher", inPodGroup(ref), func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })
	if !Concerns(launcher) {
		t.Error("it is none of this scheduler's business")
	}
	f := newFixture(t, launcher, podsOf(ref, 1)[0])
	f.ObserveGroup(ref, together(ref, 2), nil)
	if attempt := f.Attempt("launcher"); attempt == nil || attempt.Need != 2 {
		t.Errorf("attempt %+v, want one for two Pods", attempt)
	}
}

func TestLabelsOfOurOwnComeBeforeAPodGroup(t *testing.T) {
	t.Parallel()
	f := newFixture(t, pod("a", inPodGroup(kubernetesGroup("theirs")), in("ours", 1, 0)))
	if got := f.GangOf("a"); got != "default/ours" {
		t.Errorf("it is in gang %q", got)
	}
}

// TestPodsWaitUntilTheirPodGroupIsKnown covers what a Pod reports: nothing while it is
// merely not known yet, otherwise what is missing and who can help.
func TestPodsWaitUntilTheirPodGroupIsKnown(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ref   snapshot.GroupRef
		state GroupsState
		gate  string
		err   string
	}{
		"the scheduler has just started":          {kubernetesGroup("train"), GroupsUnknown, "not known yet", ""},
		"there is none of that name":              {kubernetesGroup("train"), GroupsListed, "", "waits for PodGroup train (podgroups.scheduling.k8s.io), which does not exist"},
		"there is none of Volcano's":              {volcanoGroup(), GroupsListed, "", "Volcano's controllers create those of its Jobs"},
		"Kubernetes' are switched off":            {kubernetesGroup("train"), GroupsAbsent, "", "enable its feature gate GenericWorkload"},
		"the scheduler may not read them":         {kubernetesGroup("train"), GroupsForbidden, "", "its ClusterRole needs get, list and watch"},
		"the scheduler may not read coscheduling": {coschedulingGroup("train"), GroupsForbidden, "", "its ClusterRole needs"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := podsOf(test.ref, 1)[0]
			f := newFixture(t, p)
			f.SetGroups(test.ref.API, test.state)
			if why := f.gate(p); !strings.Contains(why, test.gate) || (test.gate == "") != (why == "") {
				t.Errorf("held back because %q, want %q", why, test.gate)
			}
			attempt := f.Attempt(p.UID)
			switch {
			case test.err == "" && attempt != nil:
				t.Errorf("it is planned: %+v", attempt)
			case test.err != "" && (attempt == nil || attempt.Err == nil || !strings.Contains(attempt.Err.Error(), test.err)):
				t.Errorf("attempt %+v, want error %q", attempt, test.err)
			}
			if diff := cmp.Diff([]string{p.Name}, inNames(f.ObserveGroup(test.ref, together(test.ref, 1), nil)).Activate); diff != "" {
				t.Errorf("queued when the PodGroup is there (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPodGroupThatComesIsNotMissedByAnAttemptUnderWay(t *testing.T) {
	t.Parallel()
	ref := kubernetesGroup("train")
	p := podsOf(ref, 1)[0]
	f := newFixture(t, p)
	f.SetGroups(ref.API, GroupsListed)
	attempt := f.Attempt(p.UID)
	f.ObserveGroup(ref, together(ref, 1), nil)
	f.Fail(attempt.Group, f.now(), f.now().Add(time.Hour))
	if diff := cmp.Diff([]string{p.Name}, f.due()); diff != "" {
		t.Errorf("due (-want +got):\n%s", diff)
	}
	if why := f.gate(p); why != "" {
		t.Errorf("held back because %s", why)
	}
}

func TestPodsThatNoObjectHoldsTogetherAreAlone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ref  snapshot.GroupRef
		tell func(*fixture, snapshot.GroupRef)
	}{
		"the policy is basic": {kubernetesGroup("train"), func(f *fixture, ref snapshot.GroupRef) { f.ObserveGroup(ref, nil, nil) }},
		"Volcano is not installed": {volcanoGroup(), func(f *fixture, ref snapshot.GroupRef) {
			f.SetGroups(ref.API, GroupsAbsent)
		}},
		"coscheduling is not installed": {coschedulingGroup("train"), func(f *fixture, ref snapshot.GroupRef) {
			f.SetGroups(ref.API, GroupsAbsent)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := podsOf(test.ref, 2)
			f := newFixture(t, pods...)
			test.tell(f, test.ref)
			for _, p := range pods {
				if gang, attempt := f.GangOf(p.UID), f.Attempt(p.UID); gang != "" || attempt == nil || attempt.Err != nil || len(attempt.Waiting) != 1 {
					t.Errorf("%s: gang %q, attempt %+v", p.Name, gang, attempt)
				}
			}
		})
	}
}

func TestWithoutObjectsThePodsMayStateTheMinimum(t *testing.T) {
	t.Parallel()
	ref := volcanoGroup()
	pods := podsOf(ref, 2)
	for _, p := range pods {
		annotated("scheduling.volcano.sh/group-min-member", "2")(p)
	}
	f := newFixture(t, pods...)
	f.SetGroups(ref.API, GroupsAbsent)
	if attempt := f.Attempt("train-0"); attempt == nil || attempt.Need != 2 {
		t.Errorf("attempt %+v, want one for two Pods", attempt)
	}
	annotated("scheduling.volcano.sh/group-min-member", "all")(pods[0])
	f = newFixture(t, pods[0])
	f.SetGroups(ref.API, GroupsAbsent)
	if attempt := f.Attempt("train-0"); attempt == nil || attempt.Err == nil || !strings.Contains(attempt.Err.Error(), `is "all"`) {
		t.Errorf("attempt %+v, want an error about the minimum", attempt)
	}
}

func TestAWrongPodGroupIsReported(t *testing.T) {
	t.Parallel()
	ref := kubernetesGroup("train")
	f := newFixture(t, podsOf(ref, 1)...)
	f.ObserveGroup(ref, nil, errors.New("its topology key is no level"))
	if attempt := f.Attempt("train-0"); attempt == nil || attempt.Err == nil || attempt.Err.Error() != "its topology key is no level" {
		t.Errorf("attempt %+v, want the PodGroup's error", attempt)
	}
}

// TestAPodGroupThatChangesWhileItsGangRuns covers that nothing is done to running Pods.
func TestAPodGroupThatChangesWhileItsGangRuns(t *testing.T) {
	t.Parallel()
	ref := kubernetesGroup("train")
	tests := map[string]struct {
		change func(*fixture)
		gang   string
		spare  int
	}{
		"it wants fewer":         {func(f *fixture) { f.ObserveGroup(ref, together(ref, 1), nil) }, ref.Gang(), 1},
		"it wants more":          {func(f *fixture) { f.ObserveGroup(ref, together(ref, 5), nil) }, ref.Gang(), 0},
		"it is gone":             {func(f *fixture) { f.ForgetGroup(ref) }, ref.Gang(), 0},
		"it is no gang any more": {func(f *fixture) { f.ObserveGroup(ref, nil, nil) }, "", 0},
		"it is wrong, then as before": {func(f *fixture) {
			f.ObserveGroup(ref, nil, errors.New("wrong"))
			f.ObserveGroup(ref, together(ref, 2), nil)
		}, ref.Gang(), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := podsOf(ref, 3)
			f := newFixture(t)
			f.ObserveGroup(ref, together(ref, 2), nil)
			for _, p := range pods[:2] {
				f.Observe(onNode(p, "n"))
			}
			f.Observe(pods[2]) // it has no place yet
			test.change(f)
			if gang, spare := f.GangOf("train-0"), f.Spare(ref.Gang()); gang != test.gang || spare != test.spare {
				t.Errorf("gang %q with %d to spare, want %q with %d", gang, spare, test.gang, test.spare)
			}
			if bound := f.Bound(); len(bound) != 2 {
				t.Errorf("bound are %v", bound)
			}
			f.step(2 * timing.Partial)
			f.Partial(f.now(), nil)
			f.step(2 * timing.Partial)
			if evicted := namesOf(f.Partial(f.now(), nil)); len(evicted) > 0 {
				t.Errorf("these are evicted: %v", evicted)
			}
		})
	}
}

func TestRegroupingReleasesNoSeatOfAPodThatRuns(t *testing.T) {
	t.Parallel()
	ref := kubernetesGroup("train")
	p := podsOf(ref, 1)[0]
	f := newFixture(t)
	f.ObserveGroup(ref, together(ref, 1), nil)
	f.Observe(p)
	f.seat(p, 1)
	f.barrier(p)
	f.Observe(onNode(p, "node-0"))
	if diff := cmp.Diff(nothing(), inNames(f.ObserveGroup(ref, nil, nil))); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if f.Member(p.UID) == nil || f.GangOf(p.UID) != "" {
		t.Errorf("it is in gang %q", f.GangOf(p.UID))
	}
}

// TestAPodThatIsBeingBoundKeepsItsSeat: its Binding may be on its way, and another Pod
// must not get its GPUs.
func TestAPodThatIsBeingBoundKeepsItsSeat(t *testing.T) {
	t.Parallel()
	ref := kubernetesGroup("train")
	ends := map[string]func(*fixture, *corev1.Pod){
		"it is bound":         func(f *fixture, p *corev1.Pod) { f.Observe(onNode(p, "node-0")) },
		"it can't be bound":   func(f *fixture, p *corev1.Pod) { f.withdraw(p) },
		"it is being deleted": func(f *fixture, p *corev1.Pod) { f.Observe(ending(p)) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := podsOf(ref, 1)[0]
			f := newFixture(t)
			f.ObserveGroup(ref, together(ref, 1), nil)
			f.Observe(p)
			f.seat(p, 1)
			f.barrier(p)
			if diff := cmp.Diff(nothing(), inNames(f.ObserveGroup(ref, nil, nil))); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if !f.Placing(p.UID) {
				t.Fatal("it has lost its seat")
			}
			end(f, p)
			if gang := f.GangOf(p.UID); gang != "" {
				t.Errorf("afterwards it is in gang %q", gang)
			}
		})
	}
}

func TestAPodGroupThatIsGoneIsForgottenWithItsLastRunningPod(t *testing.T) {
	t.Parallel()
	ref := kubernetesGroup("train")
	pods := podsOf(ref, 2)
	f := newFixture(t)
	f.SetGroups(ref.API, GroupsListed)
	f.ObserveGroup(ref, together(ref, 1), nil)
	f.Observe(onNode(pods[0], "n"))
	f.Observe(pods[1])
	f.ForgetGroup(ref)
	if attempt := f.Attempt("train-1"); attempt == nil || attempt.Err != nil {
		t.Errorf("while one runs: attempt %+v", attempt)
	}
	f.Forget("train-0")
	if attempt := f.Attempt("train-1"); attempt == nil || attempt.Err == nil || !strings.Contains(attempt.Err.Error(), "which does not exist") {
		t.Errorf("when none runs: attempt %+v, want that it waits for the PodGroup", attempt)
	}
	f.Forget("train-1")
	if left := len(f.podGroups.known) + len(f.podGroups.members) + len(f.groups); left > 0 {
		t.Errorf("%d entries are left", left)
	}
}

func TestAPodJoinsAPodGroupByALaterLabel(t *testing.T) {
	t.Parallel()
	ref := coschedulingGroup("train")
	before := pod("a", func(p *corev1.Pod) { p.ResourceVersion = "1" })
	f := newFixture(t, before)
	f.ObserveGroup(ref, together(ref, 2), nil)
	after := pod("a", inPodGroup(ref), func(p *corev1.Pod) { p.ResourceVersion = "2" })
	f.Observe(after)
	if got := f.GangOf(types.UID("a")); got != ref.Gang() {
		t.Errorf("it is in gang %q", got)
	}
}

func TestAGroupOfTheSameContentChangesNothing(t *testing.T) {
	t.Parallel()
	ref := kubernetesGroup("train")
	f := newFixture(t, podsOf(ref, 1)...)
	f.ObserveGroup(ref, together(ref, 1), nil)
	if diff := cmp.Diff(nothing(), inNames(f.ObserveGroup(ref, together(ref, 1), nil))); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}
