// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// awaitReason returns the reason that a Pod has for the API server once that is as wanted.
func (f *fixture) awaitReason(pod *corev1.Pod, wanted func(*v1.WaitingReason) bool) *v1.WaitingReason {
	f.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		reason := waitingreason.Published(f.live(pod))
		if wanted(reason) {
			return reason
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("Pod %s has %+v", pod.Name, reason)
		}
		f.clock.Step(time.Second) // the reporter's ticker may not run yet
	}
}

func TestAWaitingGangSaysWhyAsAValue(t *testing.T) {
	f, pods := withReports(t, false)
	waits := f.decide(pods[0]).Waits
	got := f.awaitReason(pods[0], func(reason *v1.WaitingReason) bool { return reason != nil })
	want := &v1.WaitingReason{
		Reason: v1.WaitsForever, Never: true,
		Needs: "needs at once 2 × 1 GPU, 1 CPU", Message: "it would not fit even if nothing else ran; 1 node has room for part of it",
		Nodes:    []v1.WaitingNodes{{Count: 1, Cause: "Fits", Message: "has room for part of it"}},
		Remedies: []v1.WaitingRemedy{{Kind: "FewerMembers", Value: "1", Message: "with 1 of its 2 Pods"}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(v1.WaitingReason{}, "Time")); diff != "" {
		t.Errorf("reason (-want +got):\n%s", diff)
	}
	if sentence := waitingreason.Sentence(got); sentence != waits {
		t.Errorf("the value says %q, the Pod's condition %q", sentence, waits)
	}
}

func TestThePublishedReasonChangesWithTheCause(t *testing.T) {
	f, pods := withReports(t, false)
	f.decide(pods[0])
	first := f.awaitReason(pods[0], func(reason *v1.WaitingReason) bool { return reason != nil })
	f.addNode("m", "leaf", 1)
	f.comes(at(pod("runs", 1), "m", 0))
	f.clock.Step(time.Minute)
	waits := f.decide(pods[0]).Waits
	next := f.awaitReason(pods[0], func(reason *v1.WaitingReason) bool {
		return reason.Reason != first.Reason || reason.Never != first.Never
	})
	if next.Never || waitingreason.Sentence(next) != waits || !first.Time.Before(&next.Time) {
		t.Errorf("it waits since it %s, and has %+v", waits, next)
	}
	want := v1.WaitingRemedy{Kind: "FreeGPUs", Value: "1", Message: "with one more free GPU", Nodes: []string{"m"}}
	if diff := cmp.Diff(want, next.Remedies[0]); diff != "" {
		t.Errorf("remedy (-want +got):\n%s", diff)
	}
}

func TestAGangThatOnlyClosedNodesCouldTakeIsNotInTheLine(t *testing.T) {
	f, pods := withReports(t, false)
	f.addNode("m", "leaf", 2)
	f.change("m", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	f.clock.Step(time.Minute)
	waits := f.decide(pods[0]).Waits
	got := f.awaitReason(pods[0], func(reason *v1.WaitingReason) bool { return reason != nil })
	if got.Reason != v1.WaitsForClosedNodes || got.Never || got.Nodes[0].Cause != "NodeCordoned" || waitingreason.Sentence(got) != waits {
		t.Errorf("it has %+v, and waits: %s", got, waits)
	}
	if remedy := got.Remedies[0]; remedy.Kind != "OpenNodes" || !slices.Equal(remedy.Nodes, []string{"m"}) {
		t.Errorf("it would start %+v", remedy)
	}
	if waiting := f.registry.Waiting(); len(waiting) != 1 || !waiting[0].Never {
		t.Errorf("%d wait, and others wait behind it", len(waiting))
	}
	f.change("m", func(n *corev1.Node) { n.Spec.Unschedulable = false })
	if waiting := f.registry.Waiting(); len(waiting) != 1 || waiting[0].Never || waiting[0].Awaits != gangs.AwaitsNodes {
		t.Errorf("%d wait, and that it fits now is not known", len(waiting))
	}
}

func TestTheReasonIsWrittenTogetherWithTheFirstEstimate(t *testing.T) {
	t.Parallel()
	waits := pod("waits", 8, runsFor(time.Hour))
	f := newFixture(t, waits)
	f.addNode("node-0", "a", 8)
	f.withQueues(queue("all", 0, nil))
	f.comes(at(pod("runs", 8, runsFor(time.Hour), since(beginning)), "node-0", 0, 1, 2, 3, 4, 5, 6, 7), waits)
	f.decide(waits)
	f.line.Order()
	f.handle.client.ClearActions()
	f.line.EstimateStarts(t.Context(), f.line.State())
	if actions := f.handle.client.Actions(); len(actions) != 1 {
		t.Errorf("%d writes: %v", len(actions), actions)
	}
	if f.estimateIn("waits").Position != 1 {
		t.Error("there is no estimate")
	}
	if reason := waitingreason.Published(f.live(waits)); reason == nil || reason.Reason != v1.WaitsForGPUs {
		t.Errorf("it has %+v", reason)
	}
}

func inALevelThatIsUnknown(p *corev1.Pod) {
	in("train", 1, 0)(p)
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.AnnotationTopologyLevel, "row")
}

func TestAPodSaysWhyItIsInvalidOrItsQueueHoldsItBack(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   v1.WaitingCause
	}{
		"it demands what there is not": {inALevelThatIsUnknown, v1.WaitsForChange},
		"its queue is full":            {inQueue("small"), v1.WaitsForQueue},
	} {
		t.Run(name, func(t *testing.T) {
			one := pod("one", 2, test.change)
			f := newFixture(t, one)
			f.addNode("n", "leaf", 2)
			f.withQueues(queue("small", 0, new(int32(1))))
			f.comes(one)
			go f.reports.Run(t.Context())
			decision := f.decide(one)
			reason := f.awaitReason(one, func(reason *v1.WaitingReason) bool { return reason != nil })
			if reason.Reason != test.want || waitingreason.Sentence(reason) != decision.Waits+decision.Wrong {
				t.Errorf("%+v, want %s", reason, test.want)
			}
		})
	}
}
