// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestDecideAboutArrays(t *testing.T) {
	t.Parallel()
	array := func(parallel, completions int32) taskBuilder {
		return makeTask("scan").started(time.Minute).phase(v1.PhasePending).replicas(parallel).with(func(t *v1.GPUTask) {
			t.Spec.Completions = &completions
		})
	}
	perIndex := func(limit int32) func(*v1.GPUTask) {
		return func(t *v1.GPUTask) { t.Spec.BackoffLimitPerIndex = &limit }
	}
	restarted := func(index, count int32, since time.Duration) func(*v1.GPUTask) {
		return func(t *v1.GPUTask) {
			t.Status.Restarts += count
			t.Status.TaskRestarts = &v1.TaskRestarts{}
			t.Status.PodRestarts = append(t.Status.PodRestarts, v1.PodRestarts{Index: index, Count: count, LastFailureTime: *ago(since)})
		}
	}
	completed := func(indexes string) func(*v1.GPUTask) {
		return func(t *v1.GPUTask) { t.Status.CompletedIndexes = indexes }
	}
	testDecisions(t, map[string]decideTest{
		"as many Pods as run at the same time are created": {
			task: array(2, 5),
			want: wanted{phase: v1.PhasePending, create: []string{"scan-0@0", "scan-1@0"}},
		},
		"an array with fewer Pods than may run at the same time has them all": {
			task: array(9, 2),
			want: wanted{phase: v1.PhasePending, create: []string{"scan-0@0", "scan-1@0"}},
		},
		"the next index begins when one has succeeded": {
			task: array(2, 5),
			pods: pods(array(2, 5).pod(0, 0).succeeded(), array(2, 5).pod(1, 0).running("a")),
			want: wanted{phase: v1.PhaseRunning, message: "1 of 5 Pods have succeeded; running on a", create: []string{"scan-2@0"}, completed: "0"},
		},
		"a Pod that runs is enough": {
			task: array(2, 5),
			pods: pods(array(2, 5).pod(0, 0).running("a"), array(2, 5).pod(1, 0)),
			want: wanted{phase: v1.PhaseRunning, message: "1 of 5 Pods waits to start"},
		},
		"it goes on running while the next Pods start": {
			task: array(1, 5).phase(v1.PhaseRunning).with(completed("0")),
			pods: pods(array(1, 5).pod(1, 0)),
			want: wanted{phase: v1.PhaseRunning, message: "1 of 5 Pods have succeeded; the next are starting", completed: "0"},
		},
		"it does not if they have to wait": {
			task: array(1, 5).phase(v1.PhaseRunning).with(completed("0")),
			pods: pods(array(1, 5).pod(1, 0).unschedulable("no GPU")),
			want: wanted{phase: v1.PhasePending, message: "1 of 5 Pods waits: no GPU", completed: "0"},
		},
		"a Pod that fails leaves its place to the next index until it restarts": {
			task: array(2, 5),
			pods: pods(array(2, 5).pod(0, 0).failed(time.Second), array(2, 5).pod(1, 0).running("a")),
			want: wanted{phase: v1.PhaseRunning, message: "restart 1 of 6", create: []string{"scan-2@0"}, restarts: 1, again: 9 * time.Second},
		},
		"a Pod whose time has come waits for a place": {
			task: array(2, 5).with(restarted(0, 1, time.Minute)),
			pods: pods(array(2, 5).pod(0, 0).failed(time.Minute), array(2, 5).pod(1, 0).running("a"), array(2, 5).pod(2, 0).running("b")),
			want: wanted{phase: v1.PhaseRunning, restarts: 1},
		},
		"a Pod that restarts comes before indexes that have not begun": {
			task: array(2, 5).with(restarted(0, 1, time.Minute)),
			pods: pods(array(2, 5).pod(1, 0).running("a")),
			want: wanted{phase: v1.PhaseRunning, create: []string{"scan-0@1"}, restarts: 1},
		},
		"when fewer may run, those stop that have the least to lose": {
			task: array(1, 5),
			pods: pods(array(1, 5).pod(0, 0), array(1, 5).pod(1, 0).running("a"), array(1, 5).pod(2, 0).running("b")),
			want: wanted{phase: v1.PhaseRunning, remove: []string{"scan-2@0", "scan-0@0"}},
		},
		"an index without restarts fails alone": {
			task: array(1, 3).with(perIndex(1)).with(restarted(0, 1, time.Minute)),
			pods: pods(array(1, 3).pod(0, 1).failed(time.Second)),
			want: wanted{phase: v1.PhasePending, create: []string{"scan-1@0"}, restarts: 1},
		},
		"an array with failed indexes fails at the end": {
			task: array(1, 3).with(perIndex(0)).with(completed("0,1")),
			pods: pods(array(1, 3).pod(2, 0).failed(time.Second)),
			want: wanted{phase: v1.PhaseFailed, message: "1 index of 3 failed: 2", completed: "0,1", failing: v1.ReasonFailedIndexes},
		},
		"an array with too many failed indexes fails at once": {
			task: array(2, 9).with(perIndex(0)).with(func(t *v1.GPUTask) { t.Spec.MaxFailedIndexes = new(int32(0)) }),
			pods: pods(array(2, 9).pod(0, 0).failed(time.Second), array(2, 9).pod(1, 0).running("a")),
			want: wanted{phase: v1.PhasePending, message: "failing: Pod scan-0: container gpu-task ended with exit code 1; 1 index failed (spec.maxFailedIndexes is 0)",
				remove: []string{"scan-1@0"}, failing: v1.ReasonMaxFailedIndexes},
		},
		"a lower limit of failed indexes holds at once": {
			task: array(2, 9).with(perIndex(0)).with(func(t *v1.GPUTask) { t.Spec.MaxFailedIndexes, t.Status.FailedIndexes = new(int32(1)), "3,5" }),
			pods: pods(array(2, 9).pod(1, 0).running("a")),
			want: wanted{phase: v1.PhasePending, message: "failing: 2 indexes failed (spec.maxFailedIndexes is 1)",
				remove: []string{"scan-1@0"}, failing: v1.ReasonMaxFailedIndexes},
		},
		"the rule FailIndex fails an index at once": {
			task: array(1, 3).with(perIndex(5)).with(func(t *v1.GPUTask) {
				t.Spec.FailureRules = []v1.FailureRule{{Action: v1.ActionFailIndex, OnExitCodes: &v1.ExitCodes{Operator: v1.ExitCodeIn, Values: []int32{1}}}}
			}),
			pods: pods(array(1, 3).pod(0, 0).failed(time.Second)),
			want: wanted{phase: v1.PhasePending, create: []string{"scan-1@0"}},
		},
		"without a limit per index the array fails as a whole": {
			task: array(1, 3).backoffLimit(0),
			pods: pods(array(1, 3).pod(0, 0).failed(time.Second)),
			want: wanted{phase: v1.PhaseFailed, failing: v1.ReasonBackoffLimitExceeded},
		},
	})
}

func TestPodsOfAnArrayAreNoGang(t *testing.T) {
	t.Parallel()
	task := makeTask("scan").replicas(2).with(func(t *v1.GPUTask) { t.Spec.Completions = new(int32(3)) })
	pod := task.pod(2, 0)
	if pod.Labels[v1.LabelPodGroup] != "" || pod.Labels[v1.LabelIndex] != "2" {
		t.Errorf("the Pod has the labels %v", pod.Labels)
	}
	if env := pod.Spec.Containers[0].Env; len(env) != 1 || env[0].Name != "JOB_COMPLETION_INDEX" || env[0].Value != "2" {
		t.Errorf("the Pod has the variables %v", env)
	}
	if NeedsService(task.GPUTask) {
		t.Error("the array gets a Service")
	}
}

// The status holds the restarts of 1000 Pods. Pods that wait for their restart keep their places
// when more might be needed.
func TestRestartsOfALargeArrayFitIntoItsStatus(t *testing.T) {
	t.Parallel()
	task := makeTask("scan").started(time.Minute).phase(v1.PhasePending).replicas(10).with(func(t *v1.GPUTask) {
		t.Spec.Completions, t.Spec.BackoffLimitPerIndex = new(int32(10000)), new(int32(9))
		t.Status.TaskRestarts = &v1.TaskRestarts{}
	})
	for range 300 {
		plan, err := Decide(input(task, nil))
		if err != nil {
			t.Fatal(err)
		}
		var failed []podBuilder
		for _, pod := range created(&plan) {
			failed = append(failed, podBuilder{pod}.failed(time.Second))
		}
		task.Status = plan.Status
		if plan, err = Decide(input(task, pods(failed...))); err != nil {
			t.Fatal(err)
		}
		task.Status = plan.Status
	}
	if got := len(task.Status.PodRestarts); got > maxPodRestarts || got < maxPodRestarts-20 {
		t.Errorf("the status has %d restarts", got)
	}
}

func TestAnElasticGangGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	gang := func(replicas int32) taskBuilder {
		return makeTask("train").started(time.Minute).phase(v1.PhaseRunning).replicas(replicas).minAvailable(1).
			condition(v1.ConditionRunning, metav1.ConditionTrue, reasonEnoughRunning).
			with(func(t *v1.GPUTask) { t.Spec.MaxReplicas = new(int32(4)) })
	}
	testDecisions(t, map[string]decideTest{
		"new members get Pods": {
			task: gang(3),
			pods: pods(gang(1).pod(0, 0).running("a")),
			want: wanted{phase: v1.PhaseRunning, create: []string{"train-1@0", "train-2@0"}},
		},
		"the members with the highest indexes go": {
			task: gang(1),
			pods: pods(gang(2).pod(0, 0).running("a"), gang(2).pod(1, 0).running("b")),
			want: wanted{phase: v1.PhaseRunning, message: "running on", remove: []string{"train-1@0"}},
		},
		"members that join are not lost ones": {
			task: gang(3).with(func(t *v1.GPUTask) { t.Spec.OnLostPod, t.Status.Total = v1.LostPodRestartTask, 1 }),
			pods: pods(gang(1).pod(0, 0).running("a")),
			want: wanted{phase: v1.PhaseRunning, create: []string{"train-1@0", "train-2@0"}},
		},
		"a member that comes back while its old Pod stops is not lost": {
			task: gang(2).with(func(t *v1.GPUTask) { t.Spec.OnLostPod, t.Status.Total = v1.LostPodRestartTask, 1 }),
			pods: pods(gang(1).pod(0, 0).running("a"), gang(2).pod(1, 0).running("b").deletedAgo(time.Second)),
			want: wanted{phase: v1.PhaseRunning, again: 39 * time.Second},
		},
		"a member that is lost restarts the gang": {
			task: gang(2).with(func(t *v1.GPUTask) {
				t.Spec.OnLostPod, t.Status.Total = v1.LostPodRestartTask, 2
				t.Status.Conditions[0].Reason = reasonAllRunning
			}),
			pods: pods(gang(2).pod(0, 0).running("a")),
			want: wanted{phase: v1.PhasePending, message: "Pod train-1 was lost", remove: []string{"train-0@0"}},
		},
		"the rest suffices for success": {
			task: gang(1),
			pods: pods(gang(2).pod(0, 0).succeeded(), gang(2).pod(1, 0).deletedAgo(time.Second)),
			want: wanted{phase: v1.PhaseRunning, message: "1 Pod succeeded; waiting for 1 Pod to stop", completed: "0"},
		},
	})
}

func TestATaskThatHasSucceededDoesNotWaitForANodeForGood(t *testing.T) {
	t.Parallel()
	task := makeTask("scan").with(func(t *v1.GPUTask) { t.Spec.Completions = new(int32(2)) }).phase(v1.PhaseRunning).started(time.Minute).
		condition(v1.ConditionScheduled, metav1.ConditionFalse, reasonUnschedulable)
	status := decideAt(t, task, 0, pods(task.pod(0, 0).succeeded(), task.pod(1, 0).succeeded()), nil).Status
	if status.Phase != v1.PhaseSucceeded || !meta.IsStatusConditionTrue(status.Conditions, v1.ConditionScheduled) {
		t.Errorf("it is %s, with the conditions %+v", status.Phase, status.Conditions)
	}
}
