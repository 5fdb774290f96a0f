// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package unschedulable

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podwrite"
)

var beginning = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// fixture is a reporter, its gangs and the API server.
type fixture struct {
	*testing.T
	*Reporter
	client *fake.Clientset
	clock  *clocktesting.FakeClock
	// leader is the name of the leader of all gangs; empty if that is of no interest.
	leader string
	// waiting are the names of the Pods that wait, by gang. stale is true if the informer
	// does not show what was written.
	waiting              map[string][]string
	stale                bool
	leads, makingRoom    bool
	mu                   sync.Mutex
	refuse               error
	patched              []string
	withoutPreconditions bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, client: fake.NewClientset(), clock: clocktesting.NewFakeClock(beginning), waiting: map[string][]string{}, leads: true}
	f.client.PrependReactor("patch", "pods", f.watchPatch)
	f.Reporter = New(Options{
		Client: f.client, Clock: f.clock, Gangs: f, Members: true,
		MayWrite: func() bool { return f.leads }, HasProspect: func(string) bool { return f.makingRoom },
	})
	return f
}

// watchPatch records who is written, and whether the patch is for one version of one Pod.
func (f *fixture) watchPatch(action clienttesting.Action) (bool, runtime.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	patch, _ := action.(clienttesting.PatchAction)
	content := podwrite.Patch{}
	if err := json.Unmarshal(patch.GetPatch(), &content); err != nil {
		return true, nil, err
	}
	name := patch.GetName()
	needsVersion := content.Status != nil // the leader's annotation does no harm to a later version
	if content.Metadata.UID != types.UID("uid-of-"+name) || needsVersion && content.Metadata.ResourceVersion != "7" || action.GetSubresource() != "status" {
		f.withoutPreconditions = true
	}
	f.patched = append(f.patched, name)
	return f.refuse != nil, nil, f.refuse
}

// gang creates waiting Pods: train-0, train-1 and so on.
func (f *fixture) gang(name string, count int) {
	f.Helper()
	for range count {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, len(f.waiting[name]))}}
		p.UID, p.ResourceVersion = types.UID("uid-of-"+p.Name), "7"
		if _, err := f.client.CoreV1().Pods("default").Create(f.Context(), p, metav1.CreateOptions{}); err != nil {
			f.Fatal(err)
		}
		f.waiting[name] = append(f.waiting[name], p.Name)
	}
}

func (f *fixture) pod(name string) *corev1.Pod {
	f.Helper()
	got, err := f.client.CoreV1().Pods("default").Get(f.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return got
}

// Fails implements Gangs.
func (f *fixture) Fails(gang string) bool {
	_, fails := f.waiting[gang]
	return fails
}

// Leader implements Gangs.
func (f *fixture) Leader(string) *corev1.Pod {
	if f.leader == "" {
		return nil
	}
	return f.pod(f.leader)
}

// report is Say for a text.
func (f *fixture) report(gang, text string) {
	f.Say(gang, v1.WaitingReason{Reason: v1.WaitsForGPUs, Needs: text})
}

// Unplaced implements Gangs.
func (f *fixture) Unplaced(gang string) (pods []*corev1.Pod) {
	for _, name := range f.waiting[gang] {
		one := f.pod(name)
		one.ResourceVersion = "7"
		if f.stale {
			one.Status = corev1.PodStatus{}
		}
		pods = append(pods, one)
	}
	return pods
}

// after lets time pass, lets the reporter write, and returns who was written.
func (f *fixture) after(d time.Duration) []string {
	f.clock.Step(d)
	f.write(f.Context())
	f.mu.Lock()
	defer f.mu.Unlock()
	names := f.patched
	f.patched = nil
	slices.Sort(names)
	return names
}

func (f *fixture) want(d time.Duration, names ...string) {
	f.Helper()
	if diff := cmp.Diff(names, f.after(d)); diff != "" {
		f.Fatalf("written (-want +got):\n%s", diff)
	}
}

// needsRoom is what Cluster Autoscaler and Karpenter read: both add nodes for Pods with this
// condition, and neither does if the Pod has a node or is nominated for one.
func needsRoom(pod *corev1.Pod) bool {
	unschedulable := slices.ContainsFunc(pod.Status.Conditions, func(one corev1.PodCondition) bool {
		return one.Type == "PodScheduled" && one.Status == "False" && one.Reason == "Unschedulable"
	})
	return unschedulable && pod.Spec.NodeName == "" && pod.Status.NominatedNodeName == "" && pod.DeletionTimestamp == nil
}

func TestAutoscalersSeeAllMembersOfAGangThatFindsNoPlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.gang("train", 3)
	f.gang("other", 1)
	f.report("train", "needs at once 4 × 1 GPU")
	f.want(settle, "train-0", "train-1", "train-2")
	for _, name := range f.waiting["train"] {
		one := f.pod(name)
		if !needsRoom(one) {
			t.Errorf("no room is added for Pod %s: %+v", name, one.Status)
		}
		want := []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "needs at once 4 × 1 GPU",
			LastTransitionTime: metav1.NewTime(f.clock.Now()),
		}}
		if diff := cmp.Diff(want, one.Status.Conditions); diff != "" {
			t.Errorf("Pod %s (-want +got):\n%s", name, diff)
		}
	}
	if needsRoom(f.pod("other-0")) {
		t.Error("a Pod of another gang was written")
	}
	if f.withoutPreconditions {
		t.Error("a patch is not restricted to one version of one Pod")
	}
}

func TestEachMemberIsWrittenOnceForATextEvenIfTheInformerLags(t *testing.T) {
	t.Parallel()
	for _, stale := range []bool{false, true} {
		t.Run(fmt.Sprint("lag ", stale), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.stale = stale
			f.gang("train", 2)
			f.report("train", "a")
			f.want(settle, "train-0", "train-1")
			for range 5 {
				f.report("train", "a")
				f.want(period)
			}
			f.gang("train", 1)
			f.report("train", "a")
			f.want(period, "train-2")
		})
	}
}

func TestATextThatKeepsChangingIsWrittenOnceAMinute(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.gang("train", 1)
	f.report("train", "a")
	f.want(settle, "train-0")
	f.report("train", "b")
	f.want(period, "train-0") // the first change
	f.report("train", "c")
	f.want(period)
	f.report("train", "d")
	f.want(period)
	before := f.pod("train-0").Status.Conditions[0].LastTransitionTime
	f.want(textPeriod, "train-0")
	after := f.pod("train-0").Status.Conditions[0]
	if after.Message != "d" || !after.LastTransitionTime.Equal(&before) {
		t.Errorf("condition %+v, want text d and the former time of transition", after)
	}
	f.gang("train", 1)
	f.report("train", "e")
	f.want(period, "train-1") // it has no condition yet
}

// TestALeadersOwnConditionIsNotRepeated: kube-scheduler has written it, with the numbers of
// nodes before the text.
func TestALeadersOwnConditionIsNotRepeated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.gang("train", 1)
	one := f.pod("train-0")
	one.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: needs 1 GPU. preemption: none",
	}}
	if _, err := f.client.CoreV1().Pods("default").UpdateStatus(t.Context(), one, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.report("train", "needs 1 GPU")
	f.want(settle)
}

func TestNothingIsWrittenFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		prepare func(*fixture)
		wait    time.Duration
	}{
		"a gang that has only just failed":            {func(*fixture) {}, settle / 2},
		"a gang that has found a place meanwhile":     {func(f *fixture) { delete(f.waiting, "train") }, settle},
		"a gang that Pods are preempted for":          {func(f *fixture) { f.makingRoom = true }, settle},
		"any gang, by a scheduler that leads no more": {func(f *fixture) { f.leads = false }, settle},
		"a Pod that is nominated for a node": {func(f *fixture) {
			one := f.pod("train-0")
			one.Status.NominatedNodeName = "n"
			if _, err := f.client.CoreV1().Pods("default").UpdateStatus(f.Context(), one, metav1.UpdateOptions{}); err != nil {
				f.Fatal(err)
			}
		}, settle},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.gang("train", 1)
			f.report("train", "a")
			test.prepare(f)
			f.want(test.wait)
		})
	}
}

func TestAGangThatNoPodLeavesForAfterAllIsWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.gang("train", 1)
	f.makingRoom = true
	f.report("train", "a")
	f.want(settle)
	f.makingRoom = false
	f.want(period, "train-0")
}

func TestLargeGangsAreWrittenLittleByLittle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.gang("train", 2*atOnce)
	f.gang("late", 10)
	f.report("train", "a")
	f.clock.Step(time.Millisecond)
	f.report("late", "a")
	for _, want := range []int{atOnce, atOnce, 10, 0} {
		if got := f.after(settle); len(got) != want {
			t.Fatalf("%d Pods are written at a time, want %d", len(got), want)
		}
	}
}

func TestWritesThatFail(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	tests := map[string]struct {
		err   error
		again bool
	}{
		"the Pod has changed: it is written as it is then": {apierrors.NewConflict(pods, "train-0", errors.New("modified")), true},
		"the API server is down: it is tried again":        {errors.New("connection refused"), true},
		"the Pod is gone": {apierrors.NewNotFound(pods, "train-0"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.gang("train", 1)
			f.refuse = test.err
			f.report("train", "a")
			f.want(settle, "train-0")
			f.refuse = nil
			if got := f.after(period); len(got) > 0 != test.again {
				t.Errorf("then %v are written, again %t", got, test.again)
			}
		})
	}
}

func TestReportsOfGangsThatFoundAPlaceAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.gang("train", 1)
	f.report("train", "a")
	f.want(settle, "train-0")
	delete(f.waiting, "train")
	f.want(sweepPeriod)
	if len(f.reports) > 0 {
		t.Errorf("%d reports are left", len(f.reports))
	}
}
