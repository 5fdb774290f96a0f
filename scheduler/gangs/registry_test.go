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
	"k8s.io/apimachinery/pkg/api/resource"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// unlabelled is a Pod that has nothing to do with GPUs.
func unlabelled(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} }

func TestConcernsPodsWithGPUsAndPodsOfGangs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a Pod with a GPU":                        {pod("a"), true},
		"a Pod without any":                       {pod("a", unlabelled), false},
		"a gang's Pod without any":                {pod("a", unlabelled, in("train", 2, 0)), true},
		"a Pod whose gang's labels make no sense": {pod("a", unlabelled, in("train", 0, 0)), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Concerns(test.pod); got != test.want {
				t.Errorf("Concerns is %t, want %t", got, test.want)
			}
		})
	}
}

// asking lets a Pod ask for a resource, instead of GPUs.
func asking(name corev1.ResourceName) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("1")}}
	}
}

func TestPodsWithSlicesAreOfWhoeverPlacesTheGPUs(t *testing.T) {
	t.Parallel()
	const ours, theirs corev1.ResourceName = "falldio.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb"
	tests := map[string]struct {
		handled []corev1.ResourceName
		asked   corev1.ResourceName
		want    bool
	}{
		"ours, always":                     {[]corev1.ResourceName{v1.ResourceGPU}, ours, true},
		"NVIDIA's, with NVIDIA's GPUs":     {[]corev1.ResourceName{v1.ResourceGPU, v1.ResourceNVIDIAGPU}, theirs, true},
		"NVIDIA's, left to kube-scheduler": {[]corev1.ResourceName{v1.ResourceGPU}, theirs, false},
		"another resource of a like name":  {[]corev1.ResourceName{v1.ResourceGPU}, "falldio.com/mig-large", false},
		"NVIDIA's, if nothing is left out": {nil, theirs, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewRegistry(Timing{})
			if test.handled != nil {
				r.Handle(test.handled)
			}
			if got := r.Concerns(pod("a", asking(test.asked))); got != test.want {
				t.Errorf("Concerns is %t, want %t", got, test.want)
			}
		})
	}
}

func TestAGangThatGathers(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 3, 3)
	f := newFixture(t)
	for _, p := range pods[:2] {
		if why := f.gate(p); why == "" {
			t.Errorf("%s is queued before it was observed", p.Name)
		}
		if diff := cmp.Diff(nothing(), inNames(f.Observe(p))); diff != "" {
			t.Errorf("%s is added, actions (-want +got):\n%s", p.Name, diff)
		}
		if why := f.gate(p); !strings.Contains(why, "of the 3 Pods that start together") {
			t.Errorf("%s is held back because %q", p.Name, why)
		}
	}
	want := nothing()
	want.Activate = []string{"train-0"}
	if diff := cmp.Diff(want, inNames(f.Observe(pods[2]))); diff != "" {
		t.Errorf("the last one is added, actions (-want +got):\n%s", diff)
	}
	if why := f.gate(pods[0]); why != "" {
		t.Errorf("the leader is held back: %s", why)
	}
	for _, p := range pods[1:] {
		if why := f.gate(p); !strings.Contains(why, "another Pod of its gang") {
			t.Errorf("%s is held back because %q", p.Name, why)
		}
	}
}

// The queue observes Pods independently of us: in any order the leader gets in.
func TestTheLeaderIsQueuedWhoeverHearsOfItFirst(t *testing.T) {
	t.Parallel()
	const pods = 3
	for order := range 1 << (2 * pods) { // bits: the queue or we are next
		f, list := newFixture(t), gangOf("train", pods, pods)
		active := map[string]bool{}
		inQueue := map[string]bool{}
		do := func(actions Actions) {
			for _, p := range actions.Activate {
				if inQueue[p.Name] && f.gate(p) == "" {
					active[p.Name] = true
				}
			}
		}
		queued, observed := 0, 0
		for bit := 0; queued < pods || observed < pods; bit++ {
			if observed == pods || queued < pods && order>>bit&1 == 1 {
				p := list[queued]
				queued++
				inQueue[p.Name] = true
				if f.gate(p) == "" {
					active[p.Name] = true
				}
			} else {
				do(f.Observe(list[observed]))
				observed++
			}
		}
		if len(active) != 1 {
			t.Fatalf("order %b: queued are %v, want just one", order, active)
		}
	}
}

func TestAPodThatIsAloneIsQueued(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := pod("alone")
	want := nothing()
	want.Activate = []string{"alone"} // the queue may have held it back
	if diff := cmp.Diff(want, inNames(f.Observe(p))); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if why := f.gate(p); why != "" {
		t.Errorf("it is held back: %s", why)
	}
	if diff := cmp.Diff(Counts{}, f.Count()); diff != "" {
		t.Errorf("it counts as a gang (-want +got):\n%s", diff)
	}
}

func TestAPodWithoutGPUsIsNoneOfOurs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := pod("web", unlabelled)
	if diff := cmp.Diff(nothing(), inNames(f.Observe(p))); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if why := f.gate(p); why != "" {
		t.Errorf("it is held back: %s", why)
	}
}

// A gang that runs would look like a new one as long as its Pods are not all known.
func TestNobodyIsQueuedBeforeAllPodsAreKnown(t *testing.T) {
	t.Parallel()
	f := &fixture{t: t, Registry: NewRegistry(timing), clock: clocktesting.NewFakePassiveClock(begin)}
	f.Serve(ours)
	pods := bindFirst(gangOf("train", 3, 2), 1)
	slices.Reverse(pods)
	pods = append(pods, pod("alone"), pod("short-0", in("short", 2, 0)))
	for _, p := range pods {
		if diff := cmp.Diff(nothing(), inNames(f.Observe(p))); diff != "" {
			t.Errorf("%s, actions (-want +got):\n%s", p.Name, diff)
		}
		if p.Spec.NodeName == "" && f.gate(p) == "" {
			t.Errorf("%s is queued", p.Name)
		}
	}
	want := nothing()
	want.Activate = []string{"alone", "train-1"}
	if diff := cmp.Diff(want, inNames(f.Start())); diff != "" {
		t.Errorf("when all are known, actions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&wanted{Waiting: []string{"train-1", "train-2"}, Placed: []string{"train-0"}, Need: 1}, whatOf(f.Attempt("train-1"))); diff != "" {
		t.Errorf("attempt (-want +got):\n%s", diff)
	}
}

func TestAnotherMemberLeadsWhenTheLeaderGoes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		goes func(*fixture, *corev1.Pod) Actions
	}{
		"it is asked to end": {func(f *fixture, p *corev1.Pod) Actions { return f.Observe(ending(p)) }},
		"it is gone":         {func(f *fixture, p *corev1.Pod) Actions { return f.Forget(p.UID) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := gangOf("train", 3, 2)
			f := newFixture(t, pods...)
			want := nothing()
			want.Activate = []string{"train-1"}
			if diff := cmp.Diff(want, inNames(test.goes(f, pods[0]))); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if why := f.gate(pods[1]); why != "" {
				t.Errorf("the new leader is held back: %s", why)
			}
		})
	}
}

func TestAGangThatHasTooFewAgainGathers(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	f := newFixture(t, pods...)
	if diff := cmp.Diff(nothing(), inNames(f.Forget("train-1"))); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if why := f.gate(pods[0]); why == "" {
		t.Error("the only Pod left is queued")
	}
	if f.Attempt("train-0") != nil {
		t.Error("there is something to plan for the only Pod left")
	}
}

func TestAPlanIsGivenUpWhenAMemberGoes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		goes func(*fixture, *corev1.Pod) Actions
		// left is whether enough stay for another attempt.
		members int
		want    done
	}{
		"one is asked to end before it has come to the barrier, enough are left": {
			goes: func(f *fixture, p *corev1.Pod) Actions { return f.Observe(ending(p)) }, members: 4,
			want: done{Activate: []string{"train-0"}, Reject: []string{"train-0"}, Release: []string{"train-0", "train-1", "train-2"}},
		},
		"one is gone before it has come to the barrier, too few are left": {
			goes: func(f *fixture, p *corev1.Pod) Actions { return f.Forget(p.UID) }, members: 3,
			want: done{Activate: []string{}, Reject: []string{"train-0"}, Release: []string{"train-0", "train-1", "train-2"}},
		},
		"one could not be bound": {
			goes: func(f *fixture, p *corev1.Pod) Actions { return f.withdraw(p) }, members: 3,
			want: done{Activate: []string{"train-0"}, Reject: []string{"train-0"}, Release: []string{"train-0", "train-1", "train-2"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := gangOf("train", test.members, 3)
			f := newFixture(t, pods...)
			f.seat(pods[0], 3)
			f.pass(pods[0])
			if diff := cmp.Diff(test.want, inNames(test.goes(f, pods[1]))); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if seated := f.seated(); len(seated) > 0 {
				t.Errorf("these have a seat still: %v", seated)
			}
		})
	}
}

// Another scheduler may bind a Pod that has a seat: what the seat holds is released, as
// nothing else ever will.
func TestASeatIsGivenBackIfSomebodyElseBindsThePod(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 3, 3)
	f := newFixture(t, pods...)
	f.seat(pods[0], 3)
	f.pass(pods[0])
	want := done{Activate: []string{"train-0"}, Reject: []string{"train-0"}, Release: []string{"train-0", "train-1", "train-2"}}
	if diff := cmp.Diff(want, inNames(f.Observe(onNode(pods[1], "elsewhere")))); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if seated := f.seated(); len(seated) > 0 {
		t.Errorf("these have a seat still: %v", seated)
	}
}

func TestAnOlderStateOfAPodIsIgnored(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	f := newFixture(t, pods...)
	f.Observe(onNode(pods[0], "a"))
	f.Observe(pods[0])
	if attempt := f.Attempt("train-1"); attempt == nil || len(attempt.Placed) != 1 {
		t.Errorf("the attempt is %+v, want one with a Pod placed", attempt)
	}
}

// The queue may observe a Pod's creation after we have observed its deletion: each has its
// own informer handlers. Its deletion would never be observed again.
func TestAPodThatTheQueueHearsOfTooLateLeavesNoTrace(t *testing.T) {
	t.Parallel()
	tests := map[string]*corev1.Pod{"in a gang": pod("late", in("train", 2, 0)), "alone": pod("late")}
	for name, late := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.Observe(late)
			f.Forget(late.UID)
			f.gate(late)
			if len(f.members) > 0 || len(f.groups) > 0 {
				t.Errorf("%d Pods and %d gangs are remembered forever", len(f.members), len(f.groups))
			}
			f.Observe(pod("train-1", in("train", 2, 1)))
			if f.Attempt("train-1") != nil {
				t.Error("a Pod that is gone counts for its gang")
			}
		})
	}
}

func TestNothingIsLeftOfPodsThatAreGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	pods := append(gangOf("train", 4, 2), pod("alone"), onNode(pod("bound"), "a"))
	for _, p := range pods {
		f.Observe(p)
	}
	f.fail(pods[0], time.Second)
	f.fail(pods[4], time.Second)
	f.Partial(f.now(), nil)
	for _, p := range pods {
		f.Forget(p.UID)
		f.Forget(p.UID) // twice is no harm
	}
	if len(f.members) != 0 || len(f.groups) != 0 || f.Failing() != 0 {
		t.Errorf("left are %d Pods, %d groups, %d of them failing", len(f.members), len(f.groups), f.Failing())
	}
}

// An attempt may end after the gang has gone.
func TestTheFailureOfAGangThatIsGoneIsNotCounted(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	f := newFixture(t, pods...)
	attempt := f.Attempt("train-0")
	f.Forget("train-0")
	f.Forget("train-1")
	f.Fail(attempt.Group, f.now(), f.now())
	if f.Failing() != 0 {
		t.Errorf("%d gangs fail forever", f.Failing())
	}
}

// As Kueue and others do: the update that removes the gate also sets the node selector.
func TestAPodThatIsChangedIsLookedAtAnew(t *testing.T) {
	t.Parallel()
	p := pod("a")
	f := newFixture(t, p)
	changed := p.DeepCopy()
	changed.ResourceVersion = "2"
	changed.Spec.NodeSelector = map[string]string{v1.LabelNodePool: "blue"}
	f.Observe(changed)
	if got := f.Attempt("a").Waiting[0].Shape.Pool; got != "blue" {
		t.Errorf("its pool is %q, want blue", got)
	}
}

func TestAGangWhosePodsDisagree(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		second func(*corev1.Pod)
		min    int
		err    string
	}{
		"about the minimum: the smallest counts": {second: in("train", 1, 1), min: 1},
		"about the level of topology":            {second: annotated(v1.AnnotationTopologyLevel, "rack"), err: "topology annotations differ"},
		"about nothing":                          {second: func(*corev1.Pod) {}, min: 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, pod("train-0", in("train", 2, 0)), pod("train-1", in("train", 2, 1), test.second))
			attempt := f.Attempt("train-0")
			if attempt == nil {
				t.Fatal("there is nothing to plan")
			}
			if test.err == "" {
				if attempt.Err != nil || attempt.Labels.Min != test.min {
					t.Errorf("error %v, minimum %d, want none and %d", attempt.Err, attempt.Labels.Min, test.min)
				}
				return
			}
			if attempt.Err == nil || !strings.Contains(attempt.Err.Error(), test.err) {
				t.Errorf("error %v, want one with %q", attempt.Err, test.err)
			}
		})
	}
}

func TestTheGangsOfOtherSchedulersAreLeftAlone(t *testing.T) {
	t.Parallel()
	pods := gangOf("theirs", 3, 2)
	for _, p := range pods {
		p.Spec.SchedulerName = "another"
	}
	f := newFixture(t)
	f.Observe(onNode(pods[0], "a"))
	for _, p := range pods[1:] {
		if diff := cmp.Diff(nothing(), inNames(f.Observe(p))); diff != "" {
			t.Errorf("actions (-want +got):\n%s", diff)
		}
	}
	f.Partial(f.now(), nil)
	f.step(time.Hour)
	if stuck := f.Partial(f.now(), nil); len(stuck) > 0 {
		t.Errorf("these are evicted: %v", namesOf(stuck))
	}
	if diff := cmp.Diff(Counts{}, f.Count()); diff != "" {
		t.Errorf("counted as ours (-want +got):\n%s", diff)
	}
}
