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

// container sets the status of a container, which the Pod gets if it has none of the name.
func (b podBuilder) container(name string, state corev1.ContainerState) podBuilder {
	return b.with(func(p *corev1.Pod) {
		if p.Spec.Containers[0].Name != name {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, State: state})
	})
}

// restarted is a Pod whose kubelet has restarted a container.
func (b podBuilder) restarted(times int32) podBuilder {
	return b.with(func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: v1.ContainerName, RestartCount: times,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "NCCL error:\n unhandled system error"}},
		}}
	})
}

// seenByAClock has the node see the Pod as soon as it is bound, by a clock that is ahead, or behind.
func (b podBuilder) seenByAClock(ahead time.Duration) podBuilder {
	return b.with(func(p *corev1.Pod) {
		p.Status.StartTime = ago(2*time.Hour - ahead)
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: *ago(2 * time.Hour)})
	})
}

func inState(exitCode int32, since time.Duration) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: "Error", FinishedAt: *ago(since)}}
}

var stillRuns = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

// templateOf gives a task a template with containers.
func templateOf(containers ...string) func(*v1.GPUTask) {
	return func(t *v1.GPUTask) {
		t.Spec.Template = &corev1.PodTemplateSpec{}
		for _, name := range containers {
			t.Spec.Template.Spec.Containers = append(t.Spec.Template.Spec.Containers, corev1.Container{Name: name})
		}
	}
}

func TestRestartsByTheKubeletCountAndAreSaid(t *testing.T) {
	t.Parallel()
	task := makeTask("train").phase(v1.PhaseRunning).started(time.Hour).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning).backoffLimit(3)
	array := makeTask("train").phase(v1.PhaseRunning).started(time.Hour).replicas(2).with(func(t *v1.GPUTask) { t.Spec.Completions, t.Spec.BackoffLimitPerIndex = new(int32(2)), new(int32(1)) })
	testDecisions(t, map[string]decideTest{
		"few enough": {
			task: task, pods: pods(task.pod(0, 0).running("a").restarted(2)),
			want: wanted{phase: v1.PhaseRunning, message: "running on a; container gpu-task of Pod train on node a was restarted 2 times, the last time after exit code 1: " +
				"NCCL error: unhandled system error, and waits (CrashLoopBackOff)"},
		},
		"as many as there may be": {
			task: task, pods: pods(task.pod(0, 0).running("a").restarted(3)),
			want: wanted{phase: v1.PhaseRunning, message: "was restarted 3 times"},
		},
		"one more": {
			task: task, pods: pods(task.pod(0, 0).running("a").restarted(4)),
			want: wanted{phase: v1.PhaseRunning, message: "failing: container gpu-task of Pod train on node a was restarted 4 times", remove: []string{"train@0"}, failing: v1.ReasonBackoffLimitExceeded},
		},
		"together with those that the controller has answered": {
			task: makeTask("train").phase(v1.PhaseRunning).started(time.Hour).restarted(2, time.Hour).backoffLimit(3),
			pods: pods(task.pod(0, 2).running("a").restarted(2)),
			want: wanted{phase: v1.PhaseRunning, message: "no restarts are left (spec.backoffLimit is 3)", remove: []string{"train@2"}, restarts: 2, failing: v1.ReasonBackoffLimitExceeded},
		},
		"of an index": {
			task: array, pods: pods(array.pod(0, 0).running("a").restarted(2), array.pod(1, 0).running("a")),
			want: wanted{phase: v1.PhaseRunning, message: "running on a", remove: []string{"train-0@0"}},
		},
		"not those of a container that others have added": {
			task: task, pods: pods(task.pod(0, 0).running("a").container(v1.ContainerName, stillRuns).container("proxy", stillRuns).with(func(p *corev1.Pod) { p.Status.ContainerStatuses[1].RestartCount = 9 })),
			want: wanted{phase: v1.PhaseRunning, message: "container proxy of Pod train on node a was restarted 9 times"},
		},
	})
}

func TestTheEndOfTheWorkEndsContainersThatOthersHaveAdded(t *testing.T) {
	t.Parallel()
	task := makeTask("train").phase(v1.PhaseRunning).started(time.Hour).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning)
	two := makeTask("train").phase(v1.PhaseRunning).started(time.Hour).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning).with(templateOf(v1.ContainerName, "logs"))
	testDecisions(t, map[string]decideTest{
		"a moment later they may end by themselves": {
			task: task, pods: pods(task.pod(0, 0).running("a").container(v1.ContainerName, inState(0, 4*time.Second)).container("proxy", stillRuns)),
			want: wanted{phase: v1.PhaseRunning, message: "container gpu-task of Pod train on node a has ended with exit code 0, container proxy still runs", again: 6 * time.Second},
		},
		"also on a node whose clock is an hour ahead": {
			task: task, pods: pods(task.pod(0, 0).running("a").seenByAClock(time.Hour).container(v1.ContainerName, inState(0, 4*time.Second-time.Hour)).container("proxy", stillRuns)),
			want: wanted{phase: v1.PhaseRunning, message: "container proxy still runs", again: 6 * time.Second},
		},
		"or behind": {
			task: task, pods: pods(task.pod(0, 0).running("a").seenByAClock(-time.Hour).container(v1.ContainerName, inState(0, 4*time.Second+time.Hour)).container("proxy", stillRuns)),
			want: wanted{phase: v1.PhaseRunning, message: "container proxy still runs", again: 6 * time.Second},
		},
		"it has succeeded": {
			task: task, pods: pods(task.pod(0, 0).running("a").container(v1.ContainerName, inState(0, time.Minute)).container("proxy", stillRuns)),
			want: wanted{phase: v1.PhaseRunning, message: "1 Pod succeeded; waiting for 1 Pod to stop", completed: "0", remove: []string{"train@0"}},
		},
		"it has failed": {
			task: task, pods: pods(task.pod(0, 0).running("a").container(v1.ContainerName, inState(1, time.Minute)).container("proxy", stillRuns)),
			want: wanted{phase: v1.PhasePending, message: "container gpu-task ended with exit code 1; restart 1 of 6", restarts: 1, remove: []string{"train@0"}},
		},
		"not while it is to be restarted": {
			task: task, pods: pods(task.pod(0, 0).running("a").container(v1.ContainerName, inState(1, time.Minute)).container("proxy", stillRuns).
				with(func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure })),
			want: wanted{phase: v1.PhaseRunning},
		},
		"those of the template are waited for": {
			task: two, pods: pods(two.pod(0, 0).running("a").container(v1.ContainerName, inState(0, time.Minute)).with(func(p *corev1.Pod) {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "logs", State: stillRuns})
			})),
			want: wanted{phase: v1.PhaseRunning, message: "container gpu-task of Pod train on node a has ended with exit code 0, container logs still runs"},
		},
	})
}

func TestWhatAProgramSaysAtItsEndIsInTheMessage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ said, want string }{
		"one line":      {"NCCL error: unhandled system error", "ended with exit code 1: NCCL error: unhandled system error"},
		"several lines": {"Traceback:\n  File \"a.py\"\nValueError: 3\n", `ended with exit code 1: Traceback: File "a.py" ValueError: 3`},
		"nothing":       {"", "ended with exit code 1"},
		"a lot":         {strings.Repeat("x ", 1000) + "the end", "x the end"},
	} {
		pod := makeTask("train").pod(0, 0).failed(time.Second)
		pod.Status.ContainerStatuses[0].State.Terminated.Message = test.said
		if got := failureText(pod.Pod); !strings.HasSuffix(got, test.want) || len(got) > 2*maxLastWords {
			t.Errorf("%s: %q, want %q at its end", name, got, test.want)
		}
	}
}

func TestPodsThatHaveEndedMakeRoomInAQuota(t *testing.T) {
	t.Parallel()
	array := makeTask("train").phase(v1.PhaseRunning).started(time.Hour).replicas(2).with(func(t *v1.GPUTask) {
		t.Spec.Completions, t.Status.CompletedIndexes, t.Status.Succeeded = new(int32(8)), "0,1", 2
	})
	quota := func(in *Input) {
		in.Refusal = &Refusal{Reason: ReasonQuotaExceeded, Message: "exceeded quota: pods, limited: count/pods=4", Retry: now.Add(time.Second)}
	}
	some := func() []*corev1.Pod {
		return pods(array.pod(0, 0).succeeded(), array.pod(1, 0).succeeded(), array.pod(2, 0).running("a"), array.pod(3, 0).running("a"))
	}
	testDecisions(t, map[string]decideTest{
		"if it does not allow others": {
			task: array, pods: some()[:3], change: quota,
			want: wanted{phase: v1.PhaseRunning, message: "exceeded quota", completed: "0,1", remove: []string{"train-0@0", "train-1@0"}, again: time.Second},
		},
		"if others are to be created": {
			task: array, pods: some(), change: quota,
			want: wanted{phase: v1.PhaseRunning, completed: "0,1"},
		},
		"not without a quota": {
			task: array, pods: some()[:3],
			want: wanted{phase: v1.PhaseRunning, completed: "0,1", create: []string{"train-3@0"}},
		},
	})
}
