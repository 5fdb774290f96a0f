// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestTheQueueIsOrdered(t *testing.T) {
	t.Parallel()
	// The older one comes first, in whatever order they were observed.
	f := newFixture(t,
		pod("b-1", in("b", 1, 1), created(time.Minute)), pod("b-0", in("b", 1, 0), created(2*time.Minute)),
		pod("a-0", in("a", 1, 0), created(time.Minute)),
		pod("alone", created(30*time.Second)), pod("urgent", created(time.Hour), prioritized(9)),
	)
	pods := []*corev1.Pod{
		pod("cpu", unlabelled), pod("a-0", in("a", 1, 0)), pod("b-0", in("b", 1, 0)),
		pod("alone"), pod("urgent", prioritized(9)), pod("b-1", in("b", 1, 1)),
	}
	// A Pod that is not in the registry is as old as its last attempt.
	queued := begin.Add(45 * time.Second)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return f.RankOf(a, queued).Compare(f.RankOf(b, queued)) })
	want := []string{"urgent", "alone", "cpu", "a-0", "b-0", "b-1"}
	if diff := cmp.Diff(want, namesOf(pods)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// After a restart the Pods that exist are observed in any order.
func TestAGangIsAsOldAsItsOldestPodWhenTheSchedulerStarts(t *testing.T) {
	t.Parallel()
	late, middle, early := created(3*time.Minute), created(2*time.Minute), created(time.Minute)
	tests := map[string]struct {
		before, after []*corev1.Pod
		gone          types.UID
		want          time.Duration
	}{
		"the oldest one is observed last": {
			before: []*corev1.Pod{pod("a", in("train", 2, 0), late), pod("b", in("train", 2, 1), middle), pod("c", in("train", 2, 2), early)}, want: time.Minute,
		},
		"the oldest one runs": {
			before: []*corev1.Pod{pod("a", in("train", 2, 0), late), onNode(pod("b", in("train", 2, 1), early), "x")}, want: time.Minute,
		},
		"the oldest one has gone before the start": {
			before: []*corev1.Pod{pod("a", in("train", 2, 0), early), pod("b", in("train", 2, 1), late)}, gone: "a", want: 3 * time.Minute,
		},
		"an older one that is observed after the start does not change the order of the queue": {
			before: []*corev1.Pod{pod("a", in("train", 2, 0), middle)}, after: []*corev1.Pod{pod("b", in("train", 2, 1), early)}, want: 2 * time.Minute,
		},
		"a gang that comes after the start is as old as its first Pod": {
			after: []*corev1.Pod{pod("a", in("train", 2, 0), middle), pod("b", in("train", 2, 1), early)}, want: 2 * time.Minute,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewRegistry(timing)
			r.Serve(ours)
			for _, p := range test.before {
				r.Observe(p)
			}
			r.Forget(test.gone)
			r.Start()
			for _, p := range test.after {
				r.Observe(p)
			}
			last := slices.Concat(test.before, test.after)[len(test.before)+len(test.after)-1]
			if got := r.RankOf(last, begin).Since.Sub(begin); got != test.want {
				t.Errorf("the gang counts as created after %v, want %v", got, test.want)
			}
		})
	}
}

func TestAnIndexIsALabelOfATaskOrAJob(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		labels map[string]string
		want   int
	}{
		"a task's":               {map[string]string{"falldio.com/index": "3"}, 3},
		"a Job's":                {map[string]string{"batch.kubernetes.io/job-completion-index": "4"}, 4},
		"none: it comes last":    {nil, int(^uint(0) >> 1)},
		"none that is a number":  {map[string]string{"falldio.com/index": "first"}, int(^uint(0) >> 1)},
		"a task's that is wrong": {map[string]string{"falldio.com/index": "x", "batch.kubernetes.io/job-completion-index": "4"}, 4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := indexOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}}); got != test.want {
				t.Errorf("index %d, want %d", got, test.want)
			}
		})
	}
}

func TestAGangThatFailedIsTriedAgain(t *testing.T) {
	t.Parallel()
	second := time.Second
	tests := map[string]struct {
		// steps are carried out after the attempt failed that began at second 0;
		// it may not be repeated before second 2.
		steps func(f *fixture, pods []*corev1.Pod)
		want  []string
	}{
		"not by itself":                {func(f *fixture, _ []*corev1.Pod) { f.step(10 * second) }, []string{}},
		"by itself after some time":    {func(f *fixture, _ []*corev1.Pod) { f.step(timing.Again) }, []string{"train-0"}},
		"when there is more room":      {func(f *fixture, _ []*corev1.Pod) { f.step(3 * second); f.Wake(f.now()) }, []string{"train-0"}},
		"not before its pause is over": {func(f *fixture, _ []*corev1.Pod) { f.step(second); f.Wake(f.now()) }, []string{}},
		"when its pause is over, if there was more room meanwhile": {
			func(f *fixture, _ []*corev1.Pod) { f.step(second); f.Wake(f.now()); f.step(second) }, []string{"train-0"},
		},
		"not again while it is queued": {
			func(f *fixture, _ []*corev1.Pod) { f.step(3 * second); f.Wake(f.now()); f.due(); f.step(second) }, []string{},
		},
		"not while it has a plan": {
			func(f *fixture, pods []*corev1.Pod) { f.step(time.Minute); f.seat(pods[0], 2) }, []string{},
		},
		"through another member, if the first one has gone": {
			func(f *fixture, _ []*corev1.Pod) { f.step(time.Minute); f.Forget("train-0") }, []string{"train-1"},
		},
		"with what came while the attempt was under way": {
			// The leader is queued at second 3, its attempt begins at 4, at 5 there is
			// more room, which the attempt's snapshot does not have, at 6 it ends.
			func(f *fixture, pods []*corev1.Pod) {
				f.step(3 * second)
				f.Wake(f.now())
				f.due()
				f.step(second)
				began := f.now()
				f.step(second)
				f.Wake(f.now())
				f.due()
				f.step(second)
				f.Fail(f.Attempt(pods[0].UID).Group, began, f.now().Add(second))
				f.step(2 * second)
			},
			[]string{"train-0"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := gangOf("train", 3, 2)
			f := newFixture(t, pods...)
			f.fail(pods[0], 2*second)
			test.steps(f, pods)
			if diff := cmp.Diff(test.want, f.due()); diff != "" {
				t.Errorf("to be tried (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAGangThatHasJustFailedIsHeldBack(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	f := newFixture(t, pods...)
	f.fail(pods[0], time.Second)
	if why := f.gate(pods[0]); !strings.Contains(why, "has just failed") {
		t.Errorf("the leader is held back because %q", why)
	}
	f.step(time.Second)
	if why := f.gate(pods[0]); why != "" {
		t.Errorf("after its pause it is held back: %s", why)
	}
}

func TestThoseFirstInTheQueueAreTriedFirst(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{
		pod("old"), pod("new", created(time.Minute)), pod("newest", created(time.Hour)), pod("urgent", created(2*time.Hour), prioritized(5)),
	}
	f := newFixture(t, pods...)
	for _, p := range pods {
		f.fail(p, 0)
	}
	f.step(time.Minute)
	for _, want := range [][]string{{"urgent", "old"}, {"new", "newest"}, {}} {
		if diff := cmp.Diff(want, namesOf(f.Due(f.now(), 2))); diff != "" {
			t.Errorf("to be tried (-want +got):\n%s", diff)
		}
	}
}
