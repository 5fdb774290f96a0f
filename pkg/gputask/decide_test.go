// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// wanted is what a test expects of a plan.
type wanted struct {
	phase      v1.GPUTaskPhase
	message    string // part of the message
	create     []string
	remove     []string
	forced     []string
	restarts   int32
	completed  string
	again      time.Duration
	deleteTask bool
	// failing is the reason of the condition FailureTarget.
	failing string
}

func summary(plan Plan) wanted {
	got := wanted{
		phase: plan.Status.Phase, create: podIDs(created(&plan)), remove: podIDs(plan.Delete), forced: podIDs(plan.ForceDelete),
		restarts: plan.Status.Restarts, completed: plan.Status.CompletedIndexes,
		again: plan.RequeueAfter, deleteTask: plan.DeleteTask,
	}
	if target := meta.FindStatusCondition(plan.Status.Conditions, v1.ConditionFailureTarget); target != nil {
		got.failing = target.Reason
	}
	return got
}

// decideTest is one input of Decide and what it must decide.
type decideTest struct {
	task taskBuilder
	pods []*corev1.Pod
	// change is applied to the input.
	change func(*Input)
	want   wanted
}

func testDecisions(t *testing.T, tests map[string]decideTest) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(tc.task, tc.pods)
			if tc.change != nil {
				tc.change(&in)
			}
			before := tc.task.DeepCopy()
			plan, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(plan.Status.Message, tc.want.message) {
				t.Errorf("message %q does not contain %q", plan.Status.Message, tc.want.message)
			}
			tc.want.message = ""
			if diff := cmp.Diff(tc.want, summary(plan), cmp.AllowUnexported(wanted{})); diff != "" {
				t.Errorf("unexpected plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.task.GPUTask); diff != "" {
				t.Errorf("the task was changed:\n%s", diff)
			}
			assertStable(t, in, plan)
		})
	}
}

func deleted(t *v1.GPUTask) {
	t.DeletionTimestamp, t.Finalizers = ago(0), []string{"example.com/keeps-it"}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	single := func() taskBuilder { return makeTask("train").started(time.Minute).phase(v1.PhasePending) }
	gang := func() taskBuilder { return single().replicas(3) }
	quota := func() *Refusal {
		return &Refusal{Reason: ReasonQuotaExceeded, Message: "exceeded quota: gpus", Retry: now.Add(time.Second)}
	}
	rules := func(rules ...v1.FailureRule) func(*v1.GPUTask) {
		return func(t *v1.GPUTask) { t.Spec.FailureRules = rules }
	}
	restartIfLost := func(t *v1.GPUTask) { t.Spec.OnLostPod = v1.LostPodRestartTask }
	// The task has been running for a minute, and had been before.
	maxRuntime := func(limit, past int64) func(*v1.GPUTask) {
		return func(t *v1.GPUTask) {
			t.Spec.MaxRuntimeSeconds, t.Status.PastRuntimeSeconds, t.Status.RunningSince = &limit, past, ago(time.Minute)
		}
	}
	refused := func(count int32, since time.Duration) func(*v1.GPUTask) {
		return func(t *v1.GPUTask) {
			t.Status.Refusals = &v1.Refusals{Count: count, LastPodTime: *ago(since), Message: "no GPU is left"}
		}
	}
	anyOther := func(in *Input) { in.OtherNodes = func(*corev1.Pod, []string) bool { return true } }
	rememberMany := func(t *v1.GPUTask) {
		for i := range maxFailedNodes {
			t.Status.FailedNodes = append(t.Status.FailedNodes, v1.FailedNode{Name: fmt.Sprintf("node-%d", i), Failures: 1, LastTime: *ago(time.Hour)})
		}
	}
	refusedPod := func(since time.Duration) podBuilder {
		return single().pod(0, 0).with(func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "UnexpectedAdmissionError", "no GPU is left"
			p.CreationTimestamp = *ago(since)
		})
	}
	lost := func(b podBuilder) podBuilder {
		return b.condition(corev1.DisruptionTarget, corev1.ConditionTrue, "PreemptionByScheduler", "")
	}

	tests := map[string]decideTest{
		"a new task gets one Pod that bears its name": {
			task: makeTask("train"),
			want: wanted{phase: v1.PhasePending, message: "waiting to start", create: []string{"train@0"}},
		},
		"a new gang gets numbered Pods": {
			task: makeTask("train").replicas(3),
			want: wanted{phase: v1.PhasePending, message: "all 3 Pods wait to start", create: []string{"train-0@0", "train-1@0", "train-2@0"}},
		},
		"a task with its Pod running is Running and reports the node": {
			task: single(), pods: pods(single().pod(0, 0).running("node-1")),
			want: wanted{phase: v1.PhaseRunning, message: "running on node-1"},
		},
		"a gang runs only when all its Pods run": {
			task: gang(),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).running("b"), gang().pod(2, 0)),
			want: wanted{phase: v1.PhasePending, message: "1 of 3 Pods waits to start"},
		},
		"a gang whose first Pods have succeeded still runs": {
			task: gang(),
			pods: pods(gang().pod(0, 0).succeeded(), gang().pod(1, 0).running("b"), gang().pod(2, 0).running("b")),
			want: wanted{phase: v1.PhaseRunning, message: "running on b, node-1", completed: "0"},
		},
		"a Pod without a node brings the scheduler's reason, cut to the point": {
			task: single(),
			pods: pods(single().pod(0, 0).unschedulable("0/7 nodes are available: 7 Insufficient falldio.com/gpu. no new claims to deallocate, preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling.")),
			want: wanted{phase: v1.PhasePending, message: "0/7 nodes are available: 7 Insufficient falldio.com/gpu"},
		},
		"a count of nodes before a sentence is removed": {
			task: single(),
			pods: pods(single().pod(0, 0).unschedulable("0/7 nodes are available: needs 16 GPUs; 7 nodes have too few GPUs. preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling.")),
			want: wanted{phase: v1.PhasePending, message: "needs 16 GPUs; 7 nodes have too few GPUs"},
		},
		"in a gang every Pod without a node waits, however few the scheduler has tried": {
			task: gang(),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0), gang().pod(2, 0).unschedulable("0/7 nodes are available: 7 Insufficient falldio.com/gpu.")),
			want: wanted{phase: v1.PhasePending, message: "2 of 3 Pods wait: 0/7 nodes are available: 7 Insufficient falldio.com/gpu"},
		},
		"a gang that is placed as a whole has the reason for all in one Pod": {
			task: gang(),
			pods: pods(gang().pod(0, 0), gang().pod(1, 0).unschedulable("the gang needs 24 GPUs, 16 are free"), gang().pod(2, 0)),
			want: wanted{phase: v1.PhasePending, message: "the gang needs 24 GPUs, 16 are free"},
		},
		"what gpu-scheduler has published comes before the words of another Pod": {
			task: gang(),
			pods: pods(gang().pod(0, 0).unschedulable("old"), gang().pod(1, 0).saysWhy(&v1.WaitingReason{
				Reason: v1.WaitsForGPUs, Needs: "needs 8 GPUs", Message: "2 nodes have too few free GPUs", Remedies: []v1.WaitingRemedy{{Message: "with one more free GPU"}},
			}), gang().pod(2, 0)),
			want: wanted{
				phase:   v1.PhasePending,
				message: "2 nodes have too few free GPUs; needs 8 GPUs; it would start with one more free GPU",
			},
		},
		"the first Pod speaks for all": {
			task: gang(),
			pods: pods(gang().pod(2, 0).unschedulable("two"), gang().pod(1, 0).unschedulable("one"), gang().pod(0, 0)),
			want: wanted{phase: v1.PhasePending, message: "one"},
		},
		"a Pod that can't pull its image is reported": {
			task: single(),
			pods: pods(single().pod(0, 0).with(func(p *corev1.Pod) {
				p.Spec.NodeName = "node-1"
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
			})),
			want: wanted{phase: v1.PhasePending, message: "Pod train on node node-1: ImagePullBackOff: no such image"},
		},
		"a task succeeds with its Pod": {
			task: single(), pods: pods(single().pod(0, 0).succeeded()),
			want: wanted{phase: v1.PhaseSucceeded, message: "1 Pod succeeded", completed: "0"},
		},
		"a Pod that succeeded and was deleted is not run again": {
			task: gang().with(func(t *v1.GPUTask) { t.Status.CompletedIndexes = "0,2" }),
			pods: pods(gang().pod(1, 0).running("b")),
			want: wanted{phase: v1.PhaseRunning, message: "running on b", completed: "0,2"},
		},

		"with minAvailable a gang runs as soon as so many Pods run": {
			task: gang().minAvailable(2),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).running("b"), gang().pod(2, 0)),
			want: wanted{phase: v1.PhaseRunning, message: "running on a, b; 1 of 3 Pods waits to start"},
		},
		"with minAvailable a running gang reports what the rest waits for": {
			task: gang().minAvailable(1),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0), gang().pod(2, 0).unschedulable("no node has 8 GPUs")),
			want: wanted{phase: v1.PhaseRunning, message: "running on a; 2 of 3 Pods wait: no node has 8 GPUs"},
		},
		"with minAvailable fewer are too few": {
			task: gang().minAvailable(2),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0), gang().pod(2, 0)),
			want: wanted{phase: v1.PhasePending, message: "2 of 3 Pods wait to start"},
		},
		"with minAvailable a gang with too few Pods left is Pending again": {
			task: gang().minAvailable(2).phase(v1.PhaseRunning),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).running("b").deletedAgo(time.Second)),
			want: wanted{phase: v1.PhasePending, message: "2 of 3 Pods wait to start", create: []string{"train-2@0"}, again: 39 * time.Second},
		},
		"with minAvailable a lost Pod is replaced while the others run": {
			task: gang().minAvailable(2).phase(v1.PhaseRunning),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).running("b")),
			want: wanted{phase: v1.PhaseRunning, message: "running on a, b; 1 of 3 Pods waits to start", create: []string{"train-2@0"}},
		},
		"with minAvailable Pods that have succeeded count as long as another runs": {
			task: gang().minAvailable(2),
			pods: pods(gang().pod(0, 0).succeeded(), gang().pod(1, 0).running("b"), gang().pod(2, 0)),
			want: wanted{phase: v1.PhaseRunning, message: "running on b, node-1; 1 of 3 Pods waits to start", completed: "0"},
		},
		"with minAvailable a gang without running Pods does not run": {
			task: gang().minAvailable(2),
			pods: pods(gang().pod(0, 0).succeeded(), gang().pod(1, 0).succeeded(), gang().pod(2, 0)),
			want: wanted{phase: v1.PhasePending, message: "1 of 3 Pods waits to start", completed: "0,1"},
		},
		"with minAvailable a gang succeeds with all its Pods, too": {
			task: gang().minAvailable(1),
			pods: pods(gang().pod(0, 0).succeeded(), gang().pod(1, 0).succeeded(), gang().pod(2, 0).succeeded()),
			want: wanted{phase: v1.PhaseSucceeded, message: "3 Pods succeeded", completed: "0-2"},
		},
		"with minAvailable a failure restarts the whole gang all the same": {
			task: gang().minAvailable(1).phase(v1.PhaseRunning),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).failed(time.Second), gang().pod(2, 0).running("a")),
			want: wanted{phase: v1.PhasePending, message: "Pod train-1", restarts: 1, remove: []string{"train-0@0", "train-2@0"}, again: 9 * time.Second},
		},
		"with minAvailable and RestartPod the others run while one restarts": {
			task: gang().minAvailable(2).policy(v1.RestartPod).phase(v1.PhaseRunning),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).failed(2*time.Second), gang().pod(2, 0).running("b")),
			want: wanted{
				phase:    v1.PhaseRunning,
				message:  "running on a, b, node-1; Pod train-1: container gpu-task ended with exit code 1; restart 1 of 6 at 2026-11-21T12:00:08Z",
				restarts: 1, again: 8 * time.Second,
			},
		},

		"a failure is counted and its Pod kept for its log until the restart": {
			task: single(), pods: pods(single().pod(0, 0).failed(2 * time.Second)),
			want: wanted{phase: v1.PhasePending, message: "Pod train: container gpu-task ended with exit code 1; restart 1 of 6 at 2026-11-21T12:00:08Z", restarts: 1, again: 8 * time.Second},
		},
		"a failure that was counted is not counted again": {
			task: single().restarted(1, 2*time.Second), pods: pods(single().pod(0, 0).failed(2 * time.Second)),
			want: wanted{phase: v1.PhasePending, message: "restart 1 of 6 at 2026-11-21T12:00:08Z", restarts: 1, again: 8 * time.Second},
		},
		"after the backoff the failed Pod makes room": {
			task: single().restarted(1, 10*time.Second), pods: pods(single().pod(0, 0).failed(10 * time.Second)),
			want: wanted{phase: v1.PhasePending, message: "restart 1 of 6", restarts: 1, remove: []string{"train@0"}},
		},
		"the next start waits until the failed Pod is seen to be gone": {
			task: single().restarted(1, 10*time.Second), pods: pods(single().pod(0, 0).failed(10 * time.Second).deletedAgo(0)),
			want: wanted{phase: v1.PhasePending, message: "restart 1 of 6", restarts: 1},
		},
		"when it is gone the next attempt starts": {
			task: single().restarted(1, 10*time.Second),
			want: wanted{phase: v1.PhasePending, message: "waiting to start", restarts: 1, create: []string{"train@1"}},
		},
		"a failed Pod that somebody deleted does not shorten the backoff": {
			task: single().restarted(2, 10*time.Second),
			want: wanted{phase: v1.PhasePending, message: "restart 2 of 6 at 2026-11-21T12:00:10Z", restarts: 2, again: 10 * time.Second},
		},
		"one failure more than the limit fails the task and keeps the Pod": {
			task: single().backoffLimit(1).restarted(1, time.Minute), pods: pods(single().pod(0, 1).failed(time.Second)),
			want: wanted{phase: v1.PhaseFailed, message: "exit code 1; no restarts are left (spec.backoffLimit is 1)", restarts: 1, failing: v1.ReasonBackoffLimitExceeded},
		},
		"with a limit of 0 the first failure is final": {
			task: single().backoffLimit(0), pods: pods(single().pod(0, 0).failed(time.Second)),
			want: wanted{phase: v1.PhaseFailed, message: "no restarts are left (spec.backoffLimit is 0)", failing: v1.ReasonBackoffLimitExceeded},
		},

		"a gang restarts whole: members that run are stopped at once": {
			task: gang(),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).failed(time.Second), gang().pod(2, 0).succeeded()),
			want: wanted{phase: v1.PhasePending, message: "Pod train-1", restarts: 1, remove: []string{"train-0@0", "train-2@0"}, again: 9 * time.Second},
		},
		"members that fail together are one failure": {
			task: gang().backoffLimit(1),
			pods: pods(gang().pod(0, 0).failed(time.Second), gang().pod(1, 0).failed(time.Second), gang().pod(2, 0).failed(2*time.Second)),
			want: wanted{phase: v1.PhasePending, message: "restart 1 of 1", restarts: 1, again: 9 * time.Second},
		},
		"no member starts while one of the last attempt is still stopping": {
			task: gang().restarted(1, time.Minute),
			pods: pods(gang().pod(0, 0).running("a").deletedAgo(time.Second)),
			want: wanted{phase: v1.PhasePending, message: "restart 1", restarts: 1, again: 39 * time.Second},
		},
		"a gang that fails for good stops its other members first": {
			task: gang().backoffLimit(0),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).failed(time.Second), gang().pod(2, 0).succeeded()),
			want: wanted{phase: v1.PhasePending, message: "waiting for 1 Pod to stop", remove: []string{"train-0@0"}, completed: "2", failing: v1.ReasonBackoffLimitExceeded},
		},
		"with RestartPod only the failed member is restarted": {
			task: gang().policy(v1.RestartPod),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).failed(10*time.Second), gang().pod(2, 0).succeeded()),
			want: wanted{phase: v1.PhasePending, message: "Pod train-1", restarts: 1, remove: []string{"train-1@0"}, completed: "2"},
		},
		"with RestartPod every failed Pod counts": {
			task: gang().policy(v1.RestartPod).backoffLimit(1),
			pods: pods(gang().pod(0, 0).failed(10*time.Second), gang().pod(1, 0).failed(10*time.Second), gang().pod(2, 0).running("a")),
			want: wanted{phase: v1.PhasePending, message: "failing", remove: []string{"train-2@0"}, failing: v1.ReasonBackoffLimitExceeded},
		},
		"with RestartPod a replacement starts beside the running members": {
			task: gang().policy(v1.RestartPod).restarted(1, 10*time.Second).with(func(t *v1.GPUTask) {
				t.Status.PodRestarts = []v1.PodRestarts{{Index: 1, Count: 1, LastFailureTime: *ago(10 * time.Second)}}
			}),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(2, 0).running("b")),
			want: wanted{phase: v1.PhasePending, message: "1 of 3 Pods waits to start", restarts: 1, create: []string{"train-1@1"}},
		},

		"with RestartPod every member waits for its own failures only": {
			task: gang().policy(v1.RestartPod).with(func(t *v1.GPUTask) {
				t.Status.Restarts, t.Status.LastFailureTime = 8, ago(0)
				t.Status.PodRestarts = []v1.PodRestarts{{Index: 0, Count: 7, LastFailureTime: *ago(599 * time.Second)}, {Index: 1, Count: 1, LastFailureTime: *ago(0)}}
			}).backoffLimit(20),
			pods: pods(gang().pod(2, 0).running("a")),
			want: wanted{phase: v1.PhasePending, message: "restart 8 of 20 at 2026-11-21T12:00:01Z", restarts: 8, again: time.Second},
		},
		"a Pod that ends well while its task fails does not save it": {
			task: single().condition(v1.ConditionFailureTarget, metav1.ConditionTrue, v1.ReasonDeadlineExceeded),
			pods: pods(single().pod(0, 0).succeeded()),
			want: wanted{phase: v1.PhaseFailed, message: v1.ReasonDeadlineExceeded, completed: "0", failing: v1.ReasonDeadlineExceeded},
		},
		"a Pod that others hold up says by which gates": {
			task: single(), pods: pods(single().pod(0, 0).condition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated, "Scheduling is blocked due to non-empty scheduling gates").with(func(p *corev1.Pod) {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}, {Name: "example.com/data"}}
			})),
			want: wanted{phase: v1.PhasePending, message: "scheduling gates have to be removed first: example.com/quota, example.com/data"},
		},
		"a message is not longer than anybody reads": {
			task:   single(),
			change: func(in *Input) { in.Refusal = &Refusal{Reason: "X", Message: strings.Repeat("long ", 10000)} },
			want:   wanted{phase: v1.PhasePending, message: "…", create: []string{"train@0"}},
		},

		"a rule fails the task at once": {
			task: gang().with(rules(v1.FailureRule{Action: v1.ActionFailTask, OnExitCodes: &v1.ExitCodes{Operator: v1.ExitCodeIn, Values: []int32{42}}})),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).ended(corev1.PodFailed, 42, time.Second), gang().pod(2, 0).failed(time.Second)),
			want: wanted{phase: v1.PhasePending, message: "Pod train-1: container gpu-task ended with exit code 42; a rule in spec.failureRules makes the task fail", remove: []string{"train-0@0"}, failing: v1.ReasonFailureRule},
		},
		"a rule that does not match leaves it to the policy": {
			task: single().with(rules(v1.FailureRule{Action: v1.ActionFailTask, OnExitCodes: &v1.ExitCodes{Operator: v1.ExitCodeNotIn, Values: []int32{1, 137}}})),
			pods: pods(single().pod(0, 0).failed(time.Second)),
			want: wanted{phase: v1.PhasePending, message: "restart 1 of 6", restarts: 1, again: 9 * time.Second},
		},
		"a failure that a rule ignores does not count": {
			task: single().backoffLimit(0).with(rules(v1.FailureRule{Action: v1.ActionIgnore, OnReasons: []string{"OOMKilled"}})),
			pods: pods(single().pod(0, 0).failed(time.Second).with(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled" })),
			want: wanted{phase: v1.PhasePending, message: "waiting to start", remove: []string{"train@0"}},
		},
		"the first rule that matches counts": {
			task: gang().with(rules(
				v1.FailureRule{Action: v1.ActionRestartPod, OnExitCodes: &v1.ExitCodes{ContainerName: "gpu-task", Operator: v1.ExitCodeIn, Values: []int32{1}}},
				v1.FailureRule{Action: v1.ActionFailTask, OnExitCodes: &v1.ExitCodes{Operator: v1.ExitCodeIn, Values: []int32{1}}},
			)),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).failed(10*time.Second), gang().pod(2, 0).running("b")),
			want: wanted{phase: v1.PhasePending, message: "Pod train-1", restarts: 1, remove: []string{"train-1@0"}},
		},
		"a Pod that restarts by itself after the whole task did has an attempt of its own": {
			task: gang().policy(v1.RestartPod).with(func(t *v1.GPUTask) {
				t.Status.Restarts, t.Status.TaskRestarts = 2, &v1.TaskRestarts{Count: 2, LastFailureTime: ago(time.Hour)}
				t.Status.PodRestarts = []v1.PodRestarts{{Index: 1, Count: 1, LastFailureTime: *ago(10 * time.Second)}}
			}),
			pods: pods(gang().pod(0, 2).running("a"), gang().pod(2, 2).running("b")),
			want: wanted{phase: v1.PhasePending, message: "1 of 3 Pods waits to start", restarts: 2, create: []string{"train-1@3"}},
		},
		"a disruption counts if a rule says so": {
			task: single().backoffLimit(0).with(rules(v1.FailureRule{Action: v1.ActionRestartTask, OnPodConditions: []v1.PodConditionPattern{{Type: "DisruptionTarget"}}})),
			pods: pods(lost(single().pod(0, 0).failed(time.Second))),
			want: wanted{phase: v1.PhaseFailed, message: "no restarts are left", failing: v1.ReasonBackoffLimitExceeded},
		},

		"a gang that would hang restarts when it loses a Pod": {
			task: gang().phase(v1.PhaseRunning).with(restartIfLost).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).running("b").deletedAgo(time.Second), gang().pod(2, 0).running("c")),
			want: wanted{phase: v1.PhasePending, message: "Pod train-1 was lost or deleted, and spec.onLostPod is RestartTask", remove: []string{"train-0@0", "train-2@0"}, again: 39 * time.Second},
		},
		"it starts again at once when the last Pod is gone": {
			task: gang().phase(v1.PhasePending).with(restartIfLost).condition(v1.ConditionRunning, metav1.ConditionFalse, reasonRestarting).
				with(func(t *v1.GPUTask) { t.Status.TaskRestarts = &v1.TaskRestarts{Count: 1} }),
			want: wanted{phase: v1.PhasePending, message: "to start", create: []string{"train-0@1", "train-1@1", "train-2@1"}},
		},
		"a gang that has restarted after a failure restarts for a Pod that vanished, too": {
			task: gang().phase(v1.PhaseRunning).with(restartIfLost).restarted(1, time.Hour).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning),
			pods: pods(gang().pod(0, 1).running("a"), gang().pod(2, 1).running("c")),
			want: wanted{phase: v1.PhasePending, message: "Pod train-1 was lost or deleted", restarts: 1, remove: []string{"train-0@1", "train-2@1"}},
		},
		"a gang that has not run yet has lost nothing": {
			task: gang().with(restartIfLost),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).running("b")),
			want: wanted{phase: v1.PhasePending, message: "1 of 3 Pods waits to start", create: []string{"train-2@0"}},
		},

		"a task may run for so long": {
			task: single().with(maxRuntime(100, 30)),
			pods: pods(single().pod(0, 0).running("a")),
			want: wanted{phase: v1.PhaseRunning, message: "running on a", again: 10 * time.Second},
		},
		"and no longer": {
			task: single().phase(v1.PhaseRunning).with(maxRuntime(100, 40)),
			pods: pods(single().pod(0, 0).running("a")),
			want: wanted{phase: v1.PhaseRunning, message: "failing: not finished after running for 100 s (spec.maxRuntimeSeconds)", remove: []string{"train@0"}, failing: v1.ReasonMaxRuntimeExceeded},
		},

		"a Pod that vanished is replaced without counting": {
			task: gang().phase(v1.PhaseRunning),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(2, 0).running("b")),
			want: wanted{phase: v1.PhasePending, message: "1 of 3 Pods waits to start", create: []string{"train-1@0"}},
		},
		"a Pod that vanished after a restart is not said to have failed": {
			task: gang().phase(v1.PhaseRunning).restarted(1, time.Hour),
			pods: pods(gang().pod(0, 1).running("a"), gang().pod(2, 1).running("b")),
			want: wanted{phase: v1.PhasePending, message: "1 of 3 Pods waits to start", restarts: 1, create: []string{"train-1@1"}},
		},
		"a preempted Pod makes room for its successor and does not count": {
			task: single(), pods: pods(lost(single().pod(0, 0).ended(corev1.PodFailed, 143, time.Second))),
			want: wanted{phase: v1.PhasePending, message: "waiting to start", remove: []string{"train@0"}},
		},
		"a Pod that its node refuses at once is replaced after a pause": {
			task: single(),
			pods: pods(single().pod(0, 0).with(func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Reason = corev1.PodFailed, "OutOffalldio.com/gpu"
				p.CreationTimestamp = *ago(4 * time.Second)
			})),
			want: wanted{phase: v1.PhasePending, message: "has refused Pod train: OutOffalldio.com/gpu; attempt 2 at 2026-11-21T12:00:06Z", again: 6 * time.Second},
		},
		"a Pod that is being deleted is neither a failure nor replaced before it is gone": {
			task: single(), pods: pods(single().pod(0, 0).failed(time.Second).deletedAgo(5 * time.Second)),
			want: wanted{phase: v1.PhasePending, message: "waiting to start", again: 35 * time.Second},
		},
		"exit code 0 on SIGTERM is not a success": {
			task: single(), pods: pods(single().pod(0, 0).succeeded().deletedAgo(5 * time.Second)),
			want: wanted{phase: v1.PhasePending, message: "waiting to start", again: 35 * time.Second},
		},
		"a success just before the deletion counts": {
			task: single(), pods: pods(single().pod(0, 0).ended(corev1.PodSucceeded, 0, 10*time.Second).deletedAgo(5 * time.Second)),
			want: wanted{phase: v1.PhaseSucceeded, message: "succeeded", completed: "0"},
		},
		"a Pod of ours under a name that no member has is deleted": {
			task: single(),
			pods: pods(single().pod(0, 0).running("a"), single().pod(0, 0).with(func(p *corev1.Pod) { p.Name = "train-7" })),
			want: wanted{phase: v1.PhaseRunning, message: "running on a", remove: []string{"train-7@0"}},
		},
		"a Pod whose attempt label was edited away is replaced": {
			task: single(), pods: pods(single().pod(0, 0).running("a").with(func(p *corev1.Pod) { delete(p.Labels, v1.LabelAttempt) })),
			want: wanted{phase: v1.PhasePending, message: "to start", remove: []string{"train@"}},
		},

		"a deadline in the future requeues the task": {
			task: single().with(func(t *v1.GPUTask) { t.Spec.ActiveDeadlineSeconds = ptr.To[int64](90) }),
			pods: pods(single().pod(0, 0).running("a")),
			want: wanted{phase: v1.PhaseRunning, message: "running on a", again: 30 * time.Second},
		},
		"a passed deadline stops the Pods": {
			task: single().phase(v1.PhaseRunning).with(func(t *v1.GPUTask) { t.Spec.ActiveDeadlineSeconds = ptr.To[int64](60) }),
			pods: pods(single().pod(0, 0).running("a")),
			want: wanted{phase: v1.PhaseRunning, message: "failing: not finished 60 s after its start", remove: []string{"train@0"}, failing: v1.ReasonDeadlineExceeded},
		},
		"a task that failed by its deadline is Failed when no Pod is left": {
			task: single().condition(v1.ConditionFailureTarget, metav1.ConditionTrue, v1.ReasonDeadlineExceeded),
			want: wanted{phase: v1.PhaseFailed, message: v1.ReasonDeadlineExceeded, failing: v1.ReasonDeadlineExceeded},
		},
		"success in the moment of the deadline is success": {
			task: single().with(func(t *v1.GPUTask) { t.Spec.ActiveDeadlineSeconds = ptr.To[int64](60) }),
			pods: pods(single().pod(0, 0).succeeded()),
			want: wanted{phase: v1.PhaseSucceeded, message: "succeeded", completed: "0"},
		},

		"a suspended task gets no Pod": {
			task: makeTask("train").suspended(),
			want: wanted{phase: v1.PhaseSuspended, message: "suspended"},
		},
		"suspending stops the Pods and waits for them": {
			task: gang().phase(v1.PhaseRunning).suspended(),
			pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0).succeeded(), gang().pod(2, 0).running("a").deletedAgo(0)),
			want: wanted{phase: v1.PhaseRunning, message: "waiting for 2 Pods to stop", remove: []string{"train-0@0"}, completed: "1", again: 40 * time.Second},
		},
		"a resumed task creates what is missing": {
			task: gang().phase(v1.PhaseSuspended).condition(v1.ConditionSuspended, metav1.ConditionTrue, "Suspended").
				with(func(t *v1.GPUTask) { t.Status.CompletedIndexes = "1" }),
			want: wanted{phase: v1.PhasePending, message: "2 of 3 Pods wait to start", create: []string{"train-0@0", "train-2@0"}, completed: "1"},
		},

		"a finished task is left alone": {
			task: single().phase(v1.PhaseSucceeded).with(func(t *v1.GPUTask) { t.Status.CompletionTime = ago(time.Hour) }),
			want: wanted{phase: v1.PhaseSucceeded},
		},
		"a finished task is deleted after its time": {
			task: single().phase(v1.PhaseFailed).with(func(t *v1.GPUTask) {
				t.Status.CompletionTime, t.Spec.TTLSecondsAfterFinished = ago(time.Minute), ptr.To[int32](60)
			}),
			want: wanted{phase: v1.PhaseFailed, deleteTask: true},
		},
		"a finished task is kept until its time": {
			task: single().phase(v1.PhaseFailed).with(func(t *v1.GPUTask) {
				t.Status.CompletionTime, t.Spec.TTLSecondsAfterFinished = ago(time.Minute), ptr.To[int32](70)
			}),
			want: wanted{phase: v1.PhaseFailed, again: 10 * time.Second},
		},
		"a finished task that another waits for is kept": {
			task: single().phase(v1.PhaseSucceeded).with(func(t *v1.GPUTask) {
				t.Status.CompletionTime, t.Spec.TTLSecondsAfterFinished = ago(time.Minute), ptr.To[int32](0)
			}),
			change: func(in *Input) { in.HasWaitingDependents = true },
			want:   wanted{phase: v1.PhaseSucceeded},
		},
		"a task that is being deleted gets no Pods, and ends": {
			task: single().with(deleted),
			want: wanted{phase: v1.PhaseFailed, message: "deleted before it had finished"},
		},
		"so does one that waits for others": {
			task: makeTask("train").dependsOn(v1.Dependency{Name: "x"}).phase(v1.PhaseWaiting).with(deleted),
			want: wanted{phase: v1.PhaseFailed, message: "deleted before it had finished"},
		},
		"so does a suspended one": {
			task: makeTask("train").suspended().phase(v1.PhaseSuspended).with(deleted),
			want: wanted{phase: v1.PhaseFailed, message: "deleted before it had finished"},
		},
		"the Pods of a task that is being deleted stop": {
			task: gang().phase(v1.PhaseRunning).with(deleted), pods: pods(gang().pod(0, 0).running("a"), gang().pod(1, 0), gang().pod(2, 0).failed(time.Second)),
			want: wanted{phase: v1.PhaseRunning, message: "being deleted: waiting for 2 Pods to stop", remove: []string{"train-0@0", "train-1@0"}},
		},
		"a task that has succeeded when it is being deleted says so": {
			task: single().phase(v1.PhaseRunning).with(deleted), pods: pods(single().pod(0, 0).succeeded()),
			want: wanted{phase: v1.PhaseSucceeded, message: "1 Pod succeeded", completed: "0"},
		},
		"a finished task that is being deleted is not deleted again": {
			task: single().phase(v1.PhaseFailed).with(deleted).with(func(t *v1.GPUTask) {
				t.Status.CompletionTime, t.Spec.TTLSecondsAfterFinished = ago(time.Minute), ptr.To[int32](60)
			}),
			want: wanted{phase: v1.PhaseFailed},
		},
		"Pods that are to outlive their task go on": {
			task: single().phase(v1.PhaseRunning).with(deleted).with(func(t *v1.GPUTask) { t.Finalizers = []string{metav1.FinalizerOrphanDependents} }),
			pods: pods(single().pod(0, 0).running("a")),
			want: wanted{phase: v1.PhaseRunning},
		},

		"a refused Pod is tried again and explained": {
			task:   single(),
			change: func(in *Input) { in.Refusal = &Refusal{Reason: "QuotaExceeded", Message: "exceeded quota: gpus"} },
			want:   wanted{phase: v1.PhasePending, message: "exceeded quota: gpus", create: []string{"train@0"}},
		},
		"a Pod that is not valid is tried again: a webhook may be the cause": {
			task: single(),
			change: func(in *Input) {
				in.Refusal = &Refusal{Reason: v1.ReasonInvalidPod, Message: "image: required", Retry: now.Add(time.Second)}
			},
			want: wanted{phase: v1.PhasePending, message: "image: required", again: time.Second},
		},
		"a refused Pod is not tried before it is time": {
			task:   single(),
			change: func(in *Input) { in.Refusal = quota() },
			want:   wanted{phase: v1.PhasePending, message: "exceeded quota: gpus", again: time.Second},
		},
		"a gang that a quota cuts short gives back what it has": {
			task:   gang().minAvailable(2),
			pods:   pods(gang().pod(0, 0)),
			change: func(in *Input) { in.Refusal = quota() },
			want:   wanted{phase: v1.PhasePending, message: "exceeded quota: gpus", remove: []string{"train-0@0"}, again: time.Second},
		},
		"a gang that a quota cuts short keeps its Pods if they are enough": {
			task:   gang().minAvailable(2),
			pods:   pods(gang().pod(0, 0), gang().pod(1, 0)),
			change: func(in *Input) { in.Refusal = quota() },
			want:   wanted{phase: v1.PhasePending, message: "exceeded quota: gpus", again: time.Second},
		},
		"a gang that a quota cuts short keeps Pods that have a node": {
			task:   gang(),
			pods:   pods(gang().pod(0, 0).running("a"), gang().pod(1, 0)),
			change: func(in *Input) { in.Refusal = quota() },
			want:   wanted{phase: v1.PhasePending, message: "exceeded quota: gpus", remove: []string{"train-1@0"}, again: time.Second},
		},
		"a gang with all its Pods does not wait for anything": {
			task:   gang(),
			pods:   pods(gang().pod(0, 0), gang().pod(1, 0), gang().pod(2, 0)),
			change: func(in *Input) { in.Refusal = quota() },
			want:   wanted{phase: v1.PhasePending, message: "exceeded quota: gpus"},
		},
		"a Pod that nodes refuse again and again waits longer each time": {
			task: single().with(refused(3, time.Hour)),
			pods: pods(refusedPod(15 * time.Second)),
			want: wanted{phase: v1.PhasePending, message: "has refused Pod train: no GPU is left; attempt 5 at 2026-11-21T12:01:05Z", again: 65 * time.Second},
		},
		"a refusal counts once": {
			task: single().with(refused(3, 15*time.Second)),
			pods: pods(refusedPod(15 * time.Second)),
			want: wanted{phase: v1.PhasePending, message: "attempt 4 at 2026-11-21T12:00:25Z", again: 25 * time.Second},
		},
		"a task that nodes refuse for hours fails": {
			task: single().with(refused(20, time.Hour)),
			pods: pods(refusedPod(15 * time.Second)),
			want: wanted{phase: v1.PhaseFailed, message: "nodes have refused its Pods 21 times, and no others are known for them; the last time Pod train: no GPU is left", failing: v1.ReasonRefusedByNodes},
		},
		"a task that nodes refuse for hours goes on while there are others": {
			task: single().with(refused(20, time.Hour)),
			pods: pods(refusedPod(15 * time.Second).with(func(p *corev1.Pod) { p.Spec.NodeName = "broken" })),
			change: func(in *Input) {
				in.OtherNodes = func(_ *corev1.Pod, than []string) bool { return slices.Equal(than, []string{"broken"}) }
			},
			want: wanted{phase: v1.PhasePending, message: "node broken has refused Pod train: no GPU is left; attempt 22 at 2026-11-21T12:09:45Z", again: 585 * time.Second},
		},
		"a task goes on while one of many nodes may take it": {
			task:   single().with(refused(99, time.Hour)).with(rememberMany),
			pods:   pods(refusedPod(15 * time.Second).with(func(p *corev1.Pod) { p.Spec.NodeName = "another" })),
			change: anyOther,
			want:   wanted{phase: v1.PhasePending, message: "attempt 101 at 2026-11-21T12:09:45Z", again: 585 * time.Second},
		},
		"a task that many nodes refuse for a day fails": {
			task:   single().with(refused(100, time.Hour)).with(rememberMany),
			pods:   pods(refusedPod(15 * time.Second).with(func(p *corev1.Pod) { p.Spec.NodeName = "another" })),
			change: anyOther,
			want:   wanted{phase: v1.PhaseFailed, message: "nodes have refused its Pods 101 times, and no others are known for them; the last time Pod train: no GPU is left", failing: v1.ReasonRefusedByNodes},
		},
		"a task from before validation fails with the name of its field": {
			task: single().with(func(t *v1.GPUTask) { t.Spec.Memory = "lots" }),
			want: wanted{phase: v1.PhaseFailed, message: `spec.memory "lots"`, failing: v1.ReasonInvalidPod},
		},
	}
	testDecisions(t, tests)
}

// assertStable decides again on the status that a plan wrote, with the same
// Pods: nothing may be counted twice, and the status must not change again.
func assertStable(t *testing.T, in Input, first Plan) {
	t.Helper()
	in.Task = in.Task.DeepCopy()
	in.Task.Status = first.Status
	second, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Status, second.Status); diff != "" {
		t.Errorf("the status changes without a cause (-first +second):\n%s", diff)
	}
}

func TestASuspendedTaskDoesNotClaimToRun(t *testing.T) {
	t.Parallel()
	task := makeTask("train").phase(v1.PhaseRunning).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning).suspended()
	plan, err := Decide(input(task, nil))
	if err != nil {
		t.Fatal(err)
	}
	if meta.IsStatusConditionTrue(plan.Status.Conditions, v1.ConditionRunning) {
		t.Error("the condition Running is True")
	}
}

func TestDecideRefusesAStatusItDidNotWrite(t *testing.T) {
	t.Parallel()
	task := makeTask("train").with(func(t *v1.GPUTask) { t.Status.CompletedIndexes = "one" })
	if _, err := Decide(input(task, nil)); err == nil || !strings.Contains(err.Error(), "status.completedIndexes") {
		t.Errorf("got error %v, want one that names status.completedIndexes", err)
	}
}
