// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// decideAt returns the plan for a task at a time after now, and gives the task its status.
func decideAt(t *testing.T, task taskBuilder, after time.Duration, pods, gone []*corev1.Pod) Plan {
	t.Helper()
	in := input(task, pods)
	in.Now, in.Gone = now.Add(after), gone
	plan, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	task.Status = plan.Status
	return plan
}

// createdAfter sets when the Pod was created and got its node, relative to now.
func (b podBuilder) createdAfter(since time.Duration) podBuilder {
	return b.with(func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(now.Add(since))
		p.Status.StartTime = new(metav1.NewTime(now.Add(since)))
	})
}

// evicted is a Pod that its node has evicted after a while.
func (b podBuilder) evicted(node string, created, after time.Duration) podBuilder {
	b = b.createdAfter(created).condition(corev1.DisruptionTarget, corev1.ConditionTrue, corev1.PodReasonTerminationByKubelet, "")
	return b.with(func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase, p.Status.Reason, p.Status.Message = node, corev1.PodFailed, "Evicted", "The node was low on resource: memory."
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1.ContainerName, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "Error", StartedAt: metav1.NewTime(now.Add(created)), FinishedAt: metav1.NewTime(now.Add(created + after)),
		}}}}
	})
}

// taken is a Pod that was running and that somebody has deleted.
func (b podBuilder) taken(reason string, created, after time.Duration) podBuilder {
	b = b.createdAfter(created).running("a")
	if reason != "" {
		b = b.condition(corev1.DisruptionTarget, corev1.ConditionTrue, reason, "")
	}
	return b.with(func(p *corev1.Pod) {
		p.DeletionTimestamp = new(metav1.NewTime(now.Add(created + after)))
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1.ContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	})
}

// podsLost are Pods that a task has lost: some are still there.
type podsLost struct{ there, gone []*corev1.Pod }

// A program that ends with exit code 0 as its node stops it has not done its work, and only the condition says why it
// was stopped.
func TestAPodThatEndsWellAsItsNodeStopsItIsReplacedAndTheTaskSaysWhy(t *testing.T) {
	t.Parallel()
	task := makeTask("train").phase(v1.PhaseRunning).started(time.Hour)
	pod := task.pod(0, 0).succeeded().createdAfter(-time.Minute).
		condition(corev1.DisruptionTarget, corev1.ConditionTrue, corev1.PodReasonTerminationByKubelet, "The node was low on resource: ephemeral-storage.")
	status := decideAt(t, task, 0, pods(pod), nil).Status
	if status.Phase == v1.PhaseSucceeded || status.Restarts != 0 {
		t.Errorf("the task is %s, with %d restarts", status.Phase, status.Restarts)
	}
	if status.Losses == nil || !strings.HasSuffix(status.Losses.Message, "was stopped by its node: The node was low on resource: ephemeral-storage.") {
		t.Errorf("the task says %+v", status.Losses)
	}
}

func TestTheMoreOftenAPodIsLostTheLongerItsTaskWaits(t *testing.T) {
	t.Parallel()
	const ran = 15 * time.Second
	for name, lose := range map[string]func(task taskBuilder, created time.Duration) podsLost{
		"evicted by its node": func(task taskBuilder, created time.Duration) podsLost {
			return podsLost{there: pods(task.pod(0, 0).evicted("a", created, ran))}
		},
		"preempted": func(task taskBuilder, created time.Duration) podsLost {
			return podsLost{gone: pods(task.pod(0, 0).taken(corev1.PodReasonPreemptionByScheduler, created, ran))}
		},
		"deleted by another controller": func(task taskBuilder, created time.Duration) podsLost {
			return podsLost{gone: pods(task.pod(0, 0).taken("", created, ran))}
		},
		"deleted before it had a node": func(task taskBuilder, created time.Duration) podsLost {
			return podsLost{gone: pods(task.pod(0, 0).createdAfter(created).with(func(p *corev1.Pod) { p.Status.StartTime = nil }))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := makeTask("train").phase(v1.PhaseRunning).started(time.Hour)
			var pauses []time.Duration
			created := time.Duration(0)
			for range 9 {
				lost := created + ran
				are := lose(task, created)
				decideAt(t, task, lost, are.there, are.gone)
				plan := decideAt(t, task, lost, are.there, nil) // the status that was written changes nothing
				pause := time.Duration(0)
				if len(plan.Create) == 0 && len(plan.Delete) == 0 {
					if pause = plan.RequeueAfter; pause == 0 || !strings.Contains(task.Status.Message, "; attempt ") {
						t.Fatalf("after %d pauses: nothing wakes the task, or says that it waits: %q", len(pauses), task.Status.Message)
					}
				}
				pauses = append(pauses, pause)
				if again := decideAt(t, task, lost+pause, are.there, nil); len(again.Create)+len(again.Delete) == 0 {
					t.Fatalf("after the pause of %v nothing is done: %q", pause, task.Status.Message)
				}
				created = lost + pause
			}
			if pauses[0] != 0 || pauses[1] != 10*time.Second || pauses[2] != 20*time.Second || pauses[8] != 10*time.Minute {
				t.Errorf("the pauses are %v", pauses)
			}
			if got := task.Status.Losses.Count; got != 9 || task.Status.Restarts != 0 {
				t.Errorf("%d losses and %d restarts are counted", got, task.Status.Restarts)
			}
			if remembers := len(task.Status.FailedNodes) > 0; remembers != (name == "evicted by its node") {
				t.Errorf("nodes %v are avoided", task.Status.FailedNodes)
			}
		})
	}
}

func TestOnlyLossesInARowCount(t *testing.T) {
	t.Parallel()
	before := &v1.Losses{Count: 7, LastPodTime: *ago(2 * time.Hour), NextTime: *ago(time.Hour), Reason: v1.LossPodLost}
	task := makeTask("train").phase(v1.PhaseRunning).started(3 * time.Hour).with(func(t *v1.GPUTask) { t.Status.Losses = before })
	plan := decideAt(t, task, 0, nil, pods(task.pod(0, 0).taken("", -time.Hour, time.Hour)))
	if plan.Status.Losses != nil || len(plan.Create) != 1 {
		t.Errorf("after an hour that it ran: losses %+v, %d Pods are created", plan.Status.Losses, len(plan.Create))
	}

	array := makeTask("array").phase(v1.PhaseRunning).started(3 * time.Hour).with(func(t *v1.GPUTask) { t.Status.Losses = before.DeepCopy(); t.Spec.Completions = new(int32(4)) })
	plan = decideAt(t, array, 0, pods(array.pod(0, 0).succeeded()), nil)
	if plan.Status.Losses != nil {
		t.Errorf("after an index has succeeded: losses %+v", plan.Status.Losses)
	}
}

func TestATaskWhosePodsAreLostAgainAndAgainFails(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"":                                    v1.ReasonPodsLost,
		"EvictionByEvictionAPI":               v1.ReasonPodsLost,
		corev1.PodReasonPreemptionByScheduler: "",
	} {
		task := makeTask("train").phase(v1.PhaseRunning).started(time.Hour).with(func(t *v1.GPUTask) {
			t.Status.Losses = &v1.Losses{Count: maxLosses, LastPodTime: *ago(time.Hour), NextTime: *ago(time.Minute), Reason: v1.LossPodLost}
		})
		plan := decideAt(t, task, 0, nil, pods(task.pod(0, 0).taken(reason, -time.Minute, time.Minute)))
		if got := summary(plan).failing; got != want {
			t.Errorf("lost by %q: fails as %q, want %q", reason, got, want)
		}
	}
}

func TestOnlyThePodOfAnArrayThatWasLostWaits(t *testing.T) {
	t.Parallel()
	task := makeTask("train").phase(v1.PhaseRunning).started(time.Hour).replicas(2).with(func(t *v1.GPUTask) {
		t.Spec.Completions = new(int32(4))
		t.Status.Losses = &v1.Losses{Count: 3, LastPodTime: *ago(time.Hour), NextTime: *ago(time.Minute), Reason: v1.LossPodLost}
	})
	lost := pods(task.pod(1, 0).taken("", -time.Minute, time.Minute))
	plan := decideAt(t, task, 0, pods(task.pod(0, 0).running("a")), lost)
	if got := summary(plan); len(got.create) != 1 || got.create[0] != "train-2@0" {
		t.Errorf("created are %v, want the next index", got.create)
	}
	if indexes := plan.Status.Losses.Indexes; indexes != "1" {
		t.Errorf("the indexes %q wait", indexes)
	}
}

func TestPodsThatDoNotStartInTimeGiveTheirGPUsBack(t *testing.T) {
	t.Parallel()
	limit := func(t *v1.GPUTask) { t.Spec.StartTimeoutSeconds = new(int32(300)) }
	task := makeTask("train").phase(v1.PhasePending).started(time.Hour).with(limit)
	gang := makeTask("train").phase(v1.PhasePending).started(time.Hour).with(limit).replicas(2)
	ran := makeTask("train").phase(v1.PhaseRunning).started(time.Hour).with(limit).replicas(2).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning)
	array := makeTask("train").phase(v1.PhaseRunning).started(time.Hour).with(limit).replicas(2).with(func(t *v1.GPUTask) { t.Spec.Completions = new(int32(4)) })
	const why = "Pod train-1 on node b did not start within 300 s (startTimeoutSeconds): ImagePullBackOff: no such image"
	testDecisions(t, map[string]decideTest{
		"not before": {
			task: task, pods: pods(task.pod(0, 0).bound("a", 4*time.Minute)),
			want: wanted{phase: v1.PhasePending, message: "Pod train on node a has not started since", again: time.Minute},
		},
		"not while they wait for a node": {
			task: task, pods: pods(task.pod(0, 0).with(func(p *corev1.Pod) { p.CreationTimestamp = *ago(time.Hour) })),
			want: wanted{phase: v1.PhasePending, message: "waiting to start"},
		},
		"not without a limit": {
			task: makeTask("train"), pods: pods(makeTask("train").pod(0, 0).bound("a", time.Hour)),
			want: wanted{phase: v1.PhasePending, message: "Pod train on node a has not started since"},
		},
		"with the limit for all tasks": {
			task: makeTask("train"), pods: pods(makeTask("train").pod(0, 0).bound("a", time.Hour)),
			change: func(in *Input) { in.Config.StartTimeoutSeconds = new(int32(300)) },
			want:   wanted{phase: v1.PhasePending, message: "Pod train on node a did not start within 300 s (startTimeoutSeconds): ContainerCreating: its volumes", remove: []string{"train@0"}},
		},
		"all of a gang": {
			task: gang, pods: pods(gang.pod(0, 0).running("a"), gang.pod(1, 0).bound("b", 5*time.Minute).waits("ImagePullBackOff", "no such image")),
			want: wanted{phase: v1.PhasePending, message: why + "; all Pods start again", remove: []string{"train-0@0", "train-1@0"}},
		},
		"not those of a gang that was running before one was replaced": {
			task: ran, pods: pods(ran.pod(0, 0).bound("a", time.Hour).running("a"), ran.pod(1, 0).createdAfter(-6*time.Minute).bound("b", 5*time.Minute).waits("ImagePullBackOff", "no such image")),
			want: wanted{phase: v1.PhasePending, message: why + "; attempt 2 at 2026-11-21T12:00:10Z", remove: []string{"train-1@0"}},
		},
		"each of an array": {
			task: array, pods: pods(array.pod(0, 0).running("a"), array.pod(1, 0).bound("b", 5*time.Minute).waits("ImagePullBackOff", "no such image")),
			want: wanted{phase: v1.PhaseRunning, message: why + "; attempt 2 at 2026-11-21T12:00:10Z", remove: []string{"train-1@0"}},
		},
		"and fail in the end": {
			task: task, pods: pods(task.pod(0, 0).bound("a", 5*time.Minute)),
			change: func(in *Input) {
				in.Task = in.Task.DeepCopy()
				in.Task.Status.Losses = &v1.Losses{Count: maxLosses, LastPodTime: *ago(time.Hour), NextTime: *ago(time.Minute), Reason: v1.LossStartTimeout}
			},
			want: wanted{phase: v1.PhasePending, message: "failing: Pod train on node a did not start within 300 s", remove: []string{"train@0"}, failing: v1.ReasonStartTimeout},
		},
	})
}

func TestThePodsAreTriedElsewhereAfterAPause(t *testing.T) {
	t.Parallel()
	task := makeTask("train").phase(v1.PhasePending).started(time.Hour).with(func(t *v1.GPUTask) { t.Spec.StartTimeoutSeconds = new(int32(300)) })
	decideAt(t, task, 0, pods(task.pod(0, 0).bound("a", 5*time.Minute)), nil)
	if plan := decideAt(t, task, time.Second, nil, nil); len(plan.Create) > 0 || plan.RequeueAfter != 9*time.Second {
		t.Errorf("a second later %d Pods are created, and the next decision is after %v", len(plan.Create), plan.RequeueAfter)
	}
	plan := decideAt(t, task, 10*time.Second, nil, nil)
	pods := created(&plan)
	if len(pods) != 1 {
		t.Fatalf("after the pause %d Pods are created", len(pods))
	}
	if affinity := pods[0].Spec.Affinity; affinity == nil || len(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Errorf("the next Pod does not prefer other nodes: %v", affinity)
	}
}
