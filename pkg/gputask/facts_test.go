// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestWhatIsNoFaultOfATaskDoesNotCount has tasks that must not fail a single time.
func TestWhatIsNoFaultOfATaskDoesNotCount(t *testing.T) {
	t.Parallel()
	task := func() taskBuilder { return makeTask("train").started(time.Hour).phase(v1.PhasePending).backoffLimit(0) }
	killed := func(t *v1.GPUTask) {
		t.Spec.FailureRules = []v1.FailureRule{{Action: v1.ActionFailTask, OnExitCodes: &v1.ExitCodes{Operator: v1.ExitCodeIn, Values: []int32{137, 255}}}}
	}
	rejected := func(reason, message string) podBuilder {
		return task().pod(0, 0).with(func(p *corev1.Pod) {
			p.Spec.NodeName = "node-1"
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, reason, "Pod was rejected: "+message
		})
	}
	replaced := wanted{phase: v1.PhasePending, remove: []string{"train@0"}}
	tests := map[string]decideTest{
		"its node was rebooted, and the kubelet finds no container": {task: task(), pods: pods(lostContainers(137, "ContainerStatusUnknown")), want: replaced},
		"its node was rebooted, and containerd finds no process":    {task: task(), pods: pods(lostContainers(255, "Unknown")), want: replaced},
		"a rule about programs that are killed is not about that":   {task: task().with(killed), pods: pods(lostContainers(137, "ContainerStatusUnknown")), want: replaced},
		"nor is one about exit code 255":                            {task: task().with(killed), pods: pods(lostContainers(255, "Unknown")), want: replaced},
		"its node was under pressure before it started": {
			task: task(), pods: pods(rejected("Evicted", "The node had condition: [DiskPressure]. ")), want: replaced,
		},
		"its node got a NoExecute taint before it started": {
			task: task(), pods: pods(rejected("TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate")), want: replaced,
		},
		"its node refused it for a reason that nobody knows yet": {task: task(), pods: pods(rejected("SomethingNew", "for a new reason")), want: replaced},
	}
	testDecisions(t, tests)
}

func TestAPodThatHasStoppedAndThatAFinalizerKeepsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	kept := func(b podBuilder) podBuilder {
		return b.deletedAgo(time.Minute).with(func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} })
	}
	task := func() taskBuilder { return makeTask("train").started(time.Hour).phase(v1.PhaseRunning) }
	tests := map[string]decideTest{
		"a task that is suspended": {
			task: task().with(func(t *v1.GPUTask) { t.Spec.Suspend = new(true) }), pods: pods(kept(task().pod(0, 0).ended(corev1.PodFailed, 143, time.Second))),
			want: wanted{phase: v1.PhaseSuspended, again: unreachableReport},
		},
		"but not one whose Pod still stops": {
			task: task().with(func(t *v1.GPUTask) { t.Spec.Suspend = new(true) }), pods: pods(kept(task().pod(0, 0).running("a"))),
			want: wanted{phase: v1.PhaseRunning, message: "waiting for 1 Pod to stop", again: unreachableReport},
		},
		"its name is taken until it is gone": {
			task: task(), pods: pods(kept(task().pod(0, 0).ended(corev1.PodFailed, 143, time.Second))),
			want: wanted{phase: v1.PhasePending, message: "Pod train has stopped and is being deleted, but is kept by the finalizer example.com/keep: its replacement is created when it is gone", again: unreachableReport},
		},
		"also if it never had a node": {
			task: task(), pods: pods(kept(task().pod(0, 0))),
			want: wanted{phase: v1.PhasePending, message: "Pod train has stopped and is being deleted, but is kept by the finalizer example.com/keep"},
		},
		"after a failure": {
			task: task().restarted(1, time.Hour).with(func(t *v1.GPUTask) {
				t.Status.TaskRestarts = &v1.TaskRestarts{Count: 1, LastFailureTime: ago(time.Hour)}
			}),
			pods: pods(kept(task().pod(0, 0).failed(time.Hour))),
			want: wanted{phase: v1.PhasePending, message: "ended with exit code 1; restart 1 of 6; Pod train has stopped and is being deleted, but is kept by", restarts: 1},
		},
		"of a gang that runs without it": {
			task: task().replicas(2).minAvailable(1), pods: pods(kept(task().replicas(2).pod(0, 0).ended(corev1.PodFailed, 143, time.Second)), task().replicas(2).pod(1, 0).running("b")),
			want: wanted{phase: v1.PhaseRunning, message: "; Pod train-0 has stopped and is being deleted, but is kept by", again: unreachableReport},
		},
	}
	testDecisions(t, tests)
}

func TestAClockThatIsBehindDoesNotShortenThePauseBeforeARestart(t *testing.T) {
	t.Parallel()
	task := func() taskBuilder { return makeTask("train").started(time.Hour).phase(v1.PhaseRunning) }
	tests := map[string]decideTest{
		"by an hour": {
			task: task(), pods: pods(behind(time.Hour, task().pod(0, 0).failed(time.Hour+time.Second))),
			want: wanted{phase: v1.PhasePending, message: "restart 1 of 6 at 2026-11-21T12:00:10Z", restarts: 1, again: 10 * time.Second},
		},
		"or ahead": {
			task: task(), pods: pods(task().pod(0, 0).failed(-time.Hour)),
			want: wanted{phase: v1.PhasePending, message: "restart 1 of 6 at 2026-11-21T12:00:10Z", restarts: 1, again: 10 * time.Second},
		},
		"a right one counts": {
			task: task(), pods: pods(behind(0, task().pod(0, 0).failed(4*time.Second))),
			want: wanted{phase: v1.PhasePending, message: "restart 1 of 6 at 2026-11-21T12:00:06Z", restarts: 1, again: 6 * time.Second},
		},
	}
	testDecisions(t, tests)
}
