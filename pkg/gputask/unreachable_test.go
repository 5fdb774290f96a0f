// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

func TestDecideAboutUnreachableNodes(t *testing.T) {
	t.Parallel()
	single := func() taskBuilder { return makeTask("train").started(time.Minute).phase(v1.PhasePending) }
	forcedAfter := func(seconds int32) func(*v1.GPUTask) {
		return func(t *v1.GPUTask) { t.Spec.UnreachableNodeTimeoutSeconds = &seconds }
	}
	unreachableFor := func(d time.Duration) func(*Input) {
		return func(in *Input) {
			node := &podfacts.NotReady{Since: now.Add(-d), Silent: true, Message: "Kubelet stopped posting node status."}
			in.NotReady = map[string]*podfacts.NotReady{"a": node, "b": node}
		}
	}
	unreachableOnly := func(node string) func(*Input) {
		return func(in *Input) {
			in.NotReady = map[string]*podfacts.NotReady{node: {Since: now.Add(-time.Hour), Silent: true}}
		}
	}
	saysItIsNot := func(in *Input) {
		in.NotReady = map[string]*podfacts.NotReady{"a": {Since: now.Add(-time.Hour), Message: "container runtime is down"}}
	}
	saysNothing := func(in *Input) { in.NotReady = map[string]*podfacts.NotReady{"a": {Since: now.Add(-time.Hour)}} }
	oneOfEach := func(silent, answers string) func(*Input) {
		return func(in *Input) {
			in.NotReady = map[string]*podfacts.NotReady{
				silent: {Since: now.Add(-time.Hour), Silent: true}, answers: {Since: now.Add(-time.Hour), Message: "container runtime is down"},
			}
		}
	}
	const itsWord = "node a has not been ready since 2026-11-21T11:00:00Z (container runtime is down)"
	unseen := func() []*corev1.Pod {
		return pods(single().pod(0, 0).with(func(p *corev1.Pod) {
			p.Spec.NodeName = "a"
			bound := metav1.NewTime(now.Add(-2 * time.Minute))
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: bound}}
		}))
	}
	const silent = "node a has not answered since 2026-11-21T11:00:00Z, and Pod train may still run there: " +
		"it is kept until the node answers, is deleted or has the taint node.kubernetes.io/out-of-service"
	never := func(*Input) {}
	notReady := func(b podBuilder) podBuilder {
		return b.condition(corev1.PodReady, corev1.ConditionFalse, "", "")
	}
	stopping := func() []*corev1.Pod { return pods(single().pod(0, 0).running("a").deletedAgo(time.Hour)) }
	gang := func() taskBuilder { return single().replicas(2).minAvailable(1) }
	oneStops := func() []*corev1.Pod {
		return pods(gang().pod(0, 0).running("a").deletedAgo(time.Hour), notReady(gang().pod(1, 0).running("b")))
	}
	testDecisions(t, map[string]decideTest{
		"a Pod that does not stop on an unreachable node is waited for, and the task says why": {
			task: single(), pods: stopping(), change: unreachableFor(time.Hour),
			want: wanted{phase: v1.PhasePending, message: silent + "; spec.unreachableNodeTimeoutSeconds can set a limit", again: unreachableReport},
		},
		"so does a task that is suspended": {
			task: single().suspended(), pods: stopping(), change: unreachableFor(time.Hour),
			want: wanted{phase: v1.PhasePending, message: "suspending: waiting for 1 Pod to stop: " + silent, again: unreachableReport},
		},
		"so does a task that fails": {
			task: single().condition(v1.ConditionFailureTarget, metav1.ConditionTrue, "Test"), pods: stopping(), change: unreachableFor(time.Hour),
			want: wanted{phase: v1.PhasePending, message: "failing: Test; waiting for 1 Pod to stop: " + silent, failing: "Test", again: unreachableReport},
		},
		"so does a gang that runs without the Pod": {
			task: single().replicas(2).minAvailable(1),
			pods: pods(single().replicas(2).pod(0, 0).running("a").deletedAgo(time.Hour), single().replicas(2).pod(1, 0).running("b")), change: unreachableOnly("a"),
			want: wanted{phase: v1.PhaseRunning, message: "running on a, b; node a has not answered since", again: unreachableReport},
		},
		"a task that runs on an unreachable node says so": {
			task: single(), pods: pods(notReady(single().pod(0, 0).running("a"))), change: unreachableFor(time.Hour),
			want: wanted{phase: v1.PhaseRunning, message: "running on a; node a has not answered since 2026-11-21T11:00:00Z, and Pod train may still run there", again: unreachableReport},
		},
		"so does a gang": {
			task: single().replicas(2), pods: pods(notReady(single().replicas(2).pod(0, 0).running("a")), notReady(single().replicas(2).pod(1, 0).running("b"))), change: unreachableFor(time.Hour),
			want: wanted{phase: v1.PhaseRunning, message: "and Pod train-0 may still run there (so may 1 other Pod of the task on such a node)", again: unreachableReport},
		},
		"a Pod that does not stop on a node that says that it is not ready is not deleted by force": {
			task: single().with(forcedAfter(300)), pods: stopping(), change: saysItIsNot,
			want: wanted{phase: v1.PhasePending, message: itsWord + ", and Pod train may still run there", again: unreachableCheck},
		},
		"a task that is suspended there": {
			task: single().suspended(), pods: stopping(), change: saysItIsNot,
			want: wanted{phase: v1.PhasePending, message: "suspending: waiting for 1 Pod to stop: " + itsWord, again: unreachableReport},
		},
		"a task that runs on a node that says that it is not ready": {
			task: single(), pods: pods(notReady(single().pod(0, 0).running("a"))), change: saysItIsNot,
			want: wanted{phase: v1.PhaseRunning, message: "running on a; " + itsWord + ", and Pod train may still run there", again: unreachableReport},
		},
		"a node that does not say why it is not ready": {
			task: single(), pods: pods(notReady(single().pod(0, 0).running("a"))), change: saysNothing,
			want: wanted{phase: v1.PhaseRunning, message: "node a has not been ready since 2026-11-21T11:00:00Z, and Pod train", again: unreachableReport},
		},
		"a Pod that runs on a silent node does not hide one that does not stop on another": {
			task: gang().suspended(), pods: oneStops(), change: oneOfEach("b", "a"),
			want: wanted{phase: v1.PhasePending, message: "suspending: waiting for 2 Pods to stop: " + itsWord + ", and Pod train-0 may still run there", remove: []string{"train-1@0"}, again: unreachableReport},
		},
		"a Pod that does not stop on a silent node does not hide one that runs on another": {
			task: gang(), pods: oneStops(), change: oneOfEach("a", "b"),
			want: wanted{phase: v1.PhaseRunning, message: "running on a, b; node b has not been ready since 2026-11-21T11:00:00Z (container runtime is down), and Pod train-1 may still run there; ", again: unreachableReport},
		},
		"a Pod that an unreachable node has not begun with": {
			task: single(), pods: unseen(), change: unreachableFor(time.Hour),
			want: wanted{phase: v1.PhasePending, message: "has not started since 2026-11-21T11:58:00Z (Scheduled): node a has not answered since 2026-11-21T11:00:00Z", again: unreachableReport},
		},
		"a Pod that a node that is ready has not begun with": {
			task: single(), pods: unseen(), change: never,
			want: wanted{phase: v1.PhasePending, message: "(Scheduled): the node has not started it yet", again: unreachableReport},
		},
		"a Pod whose containers are not ready says nothing about its node": {
			task: single(), pods: pods(notReady(single().pod(0, 0).running("a")).with(func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "gpu-task"}}
			})), change: unreachableFor(time.Hour),
			want: wanted{phase: v1.PhaseRunning, message: "running on a"},
		},
		"nor does a Pod that is not ready on a node that answers": {
			task: single(), pods: pods(notReady(single().pod(0, 0).running("a"))), change: never,
			want: wanted{phase: v1.PhaseRunning, message: "running on a"},
		},
		"a Pod that does not stop on an unreachable node is deleted by force if the task says so": {
			task: single().with(forcedAfter(300)), pods: stopping(), change: unreachableFor(6 * time.Minute),
			want: wanted{phase: v1.PhasePending, message: "waiting to start", forced: []string{"train@0"}, again: unreachableCheck},
		},
		"or if all tasks do": {
			task: single(), pods: stopping(),
			change: func(in *Input) {
				unreachableFor(6 * time.Minute)(in)
				in.Config.UnreachableNodeTimeoutSeconds = new(int32(300))
			},
			want: wanted{phase: v1.PhasePending, message: "waiting to start", forced: []string{"train@0"}, again: unreachableCheck},
		},
		"but not if the task says something else": {
			task: single().with(forcedAfter(7200)), pods: stopping(),
			change: func(in *Input) {
				unreachableFor(time.Hour)(in)
				in.Config.UnreachableNodeTimeoutSeconds = new(int32(300))
			},
			want: wanted{phase: v1.PhasePending, message: silent + ", at most until 2026-11-21T13:00:00Z (unreachableNodeTimeoutSeconds)", again: unreachableCheck},
		},
		"not before the node has been unreachable for long enough": {
			task: single().with(forcedAfter(300)), pods: stopping(), change: unreachableFor(4 * time.Minute),
			want: wanted{phase: v1.PhasePending, message: ", at most until 2026-11-21T12:01:00Z", again: unreachableCheck},
		},
		"not if the node is reachable": {
			task: single().with(forcedAfter(300)), pods: stopping(), change: never,
			want: wanted{phase: v1.PhasePending, message: "waiting to start", again: unreachableCheck},
		},
		"not before its time to stop is over, and a little more": {
			task:   single().with(forcedAfter(300)),
			pods:   pods(single().pod(0, 0).running("a").deletedAgo(10 * time.Second)),
			change: unreachableFor(time.Hour),
			want:   wanted{phase: v1.PhasePending, message: "waiting to start", again: 20*time.Second + slowStop},
		},
	})
}

// TestANodeThatSaysTheSameAgainIsNoNews: the kubelet says each time how long ago something was.
func TestANodeThatSaysTheSameAgainIsNoNews(t *testing.T) {
	t.Parallel()
	task := makeTask("train").started(time.Minute).phase(v1.PhaseRunning)
	in := input(task, pods(task.pod(0, 0).running("a").condition(corev1.PodReady, corev1.ConditionFalse, "", "")))
	said := map[string]bool{}
	for _, ago := range []string{"3m5.1s", "3m15.102s", "1h0m0s"} {
		in.NotReady = map[string]*podfacts.NotReady{"a": {
			Since: now.Add(-time.Hour), Message: "[container runtime is down, PLEG is not healthy: pleg was last seen active " + ago + " ago; threshold is 3m0s]",
		}}
		plan, err := Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		said[plan.Status.Message] = true
		if want := "pleg was last seen active a while ago; threshold is 3m0s])"; !strings.Contains(plan.Status.Message, want) {
			t.Errorf("the message is %q, want %q in it", plan.Status.Message, want)
		}
	}
	if len(said) > 1 {
		t.Errorf("the messages are %v", said)
	}
}

// While the node is silent, the condition is False, upon which there is one Event; then it is True.
func TestTheConditionSaysWhetherNodesAreReachable(t *testing.T) {
	t.Parallel()
	task := makeTask("train").started(time.Minute).phase(v1.PhasePending)
	in := input(task, pods(task.pod(0, 0).running("a").deletedAgo(time.Hour)))
	in.NotReady = map[string]*podfacts.NotReady{"a": {Since: now.Add(-time.Hour), Silent: true}}
	first, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if events := Events(&task.Status, &first.Status); len(events) != 1 || events[0].Reason != reasonNodeUnreachable || events[0].Message != first.Status.Message {
		t.Errorf("the Events are %+v", events)
	}
	in.Task = task.DeepCopy()
	in.Task.Status, in.NotReady = first.Status, nil
	second, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(second.Status.Conditions, v1.ConditionNodesReachable) {
		t.Errorf("the conditions are %+v", second.Status.Conditions)
	}
	if events := Events(&first.Status, &second.Status); len(events) > 0 {
		t.Errorf("the Events are %+v", events)
	}
}
