// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func notAdmitted() *Admission {
	return &Admission{Reason: "WaitingForQuota", Message: "waiting for quota in the queue"}
}

// admitted is an admission that grants a number of Pods to a task without roles.
func admitted(pods int) *Admission {
	return &Admission{Admitted: true, Grants: map[string]Grant{"": {Pods: pods}}}
}

func decide(t *testing.T, in Input) Plan {
	t.Helper()
	plan, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestATaskThatIsNotAdmittedIsSuspended(t *testing.T) {
	t.Parallel()
	task := makeTask("train").replicas(2)
	in := input(task, nil)
	in.Admission = notAdmitted()
	plan := decide(t, in)
	if plan.Status.Phase != v1.PhaseSuspended || plan.Status.Message != in.Admission.Message || len(plan.Create) > 0 {
		t.Errorf("phase %s, message %q, Pods %v", plan.Status.Phase, plan.Status.Message, podIDs(created(&plan)))
	}
	suspended := meta.FindStatusCondition(plan.Status.Conditions, v1.ConditionSuspended)
	if suspended == nil || suspended.Status != metav1.ConditionTrue || suspended.Reason != "WaitingForQuota" {
		t.Errorf("the condition is %v", suspended)
	}
	// The decision is stable: nothing changes while Kueue says the same.
	again := task.with(func(t *v1.GPUTask) { t.Status = plan.Status })
	in = input(again, nil)
	in.Admission, in.Now = notAdmitted(), now.Add(time.Hour)
	if diff := cmp.Diff(plan.Status, decide(t, in).Status); diff != "" {
		t.Errorf("an hour later (-first +later):\n%s", diff)
	}
}

func TestAnAdmittedTaskGoesOn(t *testing.T) {
	t.Parallel()
	task := makeTask("train").replicas(2).phase(v1.PhaseSuspended).condition(v1.ConditionSuspended, metav1.ConditionTrue, "WaitingForQuota")
	in := input(task, nil)
	in.Admission = admitted(2)
	plan := decide(t, in)
	if diff := cmp.Diff([]string{"train-0@0", "train-1@0"}, podIDs(created(&plan))); diff != "" {
		t.Errorf("Pods (-want +got):\n%s", diff)
	}
	if plan.Status.Phase != v1.PhasePending || meta.IsStatusConditionTrue(plan.Status.Conditions, v1.ConditionSuspended) {
		t.Errorf("phase %s, conditions %v", plan.Status.Phase, plan.Status.Conditions)
	}
}

func TestAnEvictedTaskStops(t *testing.T) {
	t.Parallel()
	task := makeTask("train").replicas(2).started(time.Hour).phase(v1.PhaseRunning).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning)
	in := input(task, pods(task.pod(0, 0).running("node-1"), task.pod(1, 0).running("node-2")))
	in.Admission = &Admission{Reason: "Evicted", Message: "evicted by Kueue (Preempted)"}
	plan := decide(t, in)
	if diff := cmp.Diff([]string{"train-0@0", "train-1@0"}, podIDs(plan.Delete)); diff != "" {
		t.Errorf("deleted Pods (-want +got):\n%s", diff)
	}
	if plan.Status.Restarts != 0 || plan.Status.StartTime != nil || plan.Status.Message != "evicted by Kueue (Preempted): waiting for 2 Pods to stop" {
		t.Errorf("restarts %d, start %v, message %q", plan.Status.Restarts, plan.Status.StartTime, plan.Status.Message)
	}
}

func TestATaskWaitsForItsDependenciesBeforeItsQuota(t *testing.T) {
	t.Parallel()
	task := makeTask("train").dependsOn(v1.Dependency{Name: "prepare"})
	in := input(task, nil)
	in.Admission, in.Lookup = notAdmitted(), lookup(makeTask("prepare").phase(v1.PhaseRunning))
	if plan := decide(t, in); plan.Status.Phase != v1.PhaseWaiting || meta.IsStatusConditionTrue(plan.Status.Conditions, v1.ConditionSuspended) {
		t.Errorf("while the dependency runs: phase %s", plan.Status.Phase)
	}
	if WantsQuota(task.GPUTask) {
		t.Error("it wants quota before its dependencies are met")
	}
	in.Lookup = lookup(makeTask("prepare").phase(v1.PhaseSucceeded))
	plan := decide(t, in)
	if plan.Status.Phase != v1.PhaseSuspended {
		t.Errorf("after the dependency: phase %s", plan.Status.Phase)
	}
	task.Status = plan.Status
	if !WantsQuota(task.GPUTask) {
		t.Error("it wants no quota though its dependencies are met")
	}
}

func TestNoMorePodsExistThanWereAdmitted(t *testing.T) {
	t.Parallel()
	elastic := makeTask("train").replicas(4).minAvailable(2).started(time.Minute).phase(v1.PhasePending)
	larger := makeTask("train").replicas(5)
	array := makeTask("sweep").replicas(4).started(time.Minute).with(func(t *v1.GPUTask) { t.Spec.Completions = new(int32(10)) })
	for name, c := range map[string]struct {
		task         taskBuilder
		pods         []*corev1.Pod
		granted      int
		create, gone []string
	}{
		"a new gang": {task: elastic, granted: 3, create: []string{"train-0@0", "train-1@0", "train-2@0"}},
		"a gang of which a later member runs": {
			task: elastic, pods: pods(elastic.pod(3, 0).running("node-1")), granted: 2, create: []string{"train-0@0"},
		},
		"a gang with more Pods than were admitted": {
			task: elastic, pods: pods(elastic.pod(0, 0).running("node-1"), elastic.pod(1, 0).running("node-1"), elastic.pod(3, 0).running("node-1")),
			granted: 2, gone: []string{"train-3@0"},
		},
		"a gang of which a member has succeeded": {
			task: elastic.with(func(*v1.GPUTask) {}), granted: 2,
			pods: pods(elastic.pod(0, 0).succeeded(), elastic.pod(1, 0).running("node-1")), create: []string{"train-2@0"},
		},
		"a gang that has become smaller": {
			task: elastic.with(func(*v1.GPUTask) {}), granted: 3, // its former member 4 still stops
			pods: pods(elastic.pod(0, 0).running("node-1"), elastic.pod(1, 0).running("node-1"), larger.pod(4, 0).deletedAgo(time.Second)),
		},
		"an array": {task: array, granted: 2, create: []string{"sweep-0@0", "sweep-1@0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(c.task, c.pods)
			in.Admission = admitted(c.granted)
			plan := decide(t, in)
			if diff := cmp.Diff(c.create, podIDs(created(&plan))); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.gone, podIDs(plan.Delete)); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodsGetWhatTheirRoleWasGiven(t *testing.T) {
	t.Parallel()
	task := launcherAndWorkers()
	task.Status = v1.GPUTaskStatus{}
	in := input(task, nil)
	spot := corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists}
	in.Admission = &Admission{Admitted: true, Grants: map[string]Grant{
		"launcher": {Pods: 1},
		"worker": {
			Pods: 2, NodeSelector: map[string]string{"pool": "spot"}, Tolerations: []corev1.Toleration{spot, spot},
			Labels: map[string]string{"set": "worker"}, Annotations: map[string]string{"workload": "mpi"},
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "topology"}},
		},
	}}
	plan := decide(t, in)
	if len(plan.Create) != 3 {
		t.Fatalf("Pods %v", podIDs(created(&plan)))
	}
	pods := created(&plan)
	launcher, worker := pods[0], pods[1]
	if launcher.Spec.NodeSelector["pool"] != "" || launcher.Labels["set"] != "" {
		t.Errorf("the launcher got what the workers were given: %v", launcher.Spec.NodeSelector)
	}
	if diff := cmp.Diff(map[string]string{"pool": "spot", v1.LabelGPUModel: "h100"}, worker.Spec.NodeSelector); diff != "" {
		t.Errorf("node selector (-want +got):\n%s", diff)
	}
	count := 0
	for _, toleration := range worker.Spec.Tolerations {
		if toleration.Key == "spot" {
			count++
		}
	}
	if count != 1 || worker.Labels["set"] != "worker" || worker.Annotations["workload"] != "mpi" || len(worker.Spec.SchedulingGates) != 1 {
		t.Errorf("%d tolerations, labels %v, annotations %v, gates %v", count, worker.Labels, worker.Annotations, worker.Spec.SchedulingGates)
	}
}

func TestATaskThatContradictsWhatItWasGivenFails(t *testing.T) {
	t.Parallel()
	task := makeTask("train").with(func(t *v1.GPUTask) { t.Spec.GPU = "h100" })
	in := input(task, nil)
	in.Admission = &Admission{Admitted: true, Grants: map[string]Grant{"": {Pods: 1, NodeSelector: map[string]string{v1.LabelGPUModel: "a100"}}}}
	plan := decide(t, in)
	failed := meta.FindStatusCondition(plan.Status.Conditions, v1.ConditionFailed)
	if len(plan.Create) > 0 || failed == nil || failed.Reason != v1.ReasonInvalidPod || !strings.Contains(failed.Message, "falldio.com/gpu=a100") {
		t.Errorf("Pods %v, condition %v", podIDs(created(&plan)), failed)
	}
}

func TestWhoWantsQuota(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		task taskBuilder
		want bool
	}{
		"a new task":           {makeTask("a"), true},
		"a running task":       {makeTask("a").phase(v1.PhaseRunning), true},
		"a suspended task":     {makeTask("a").suspended(), false},
		"a finished task":      {makeTask("a").phase(v1.PhaseSucceeded), false},
		"a task being deleted": {makeTask("a").with(func(t *v1.GPUTask) { t.DeletionTimestamp = ago(0) }), false},
	} {
		if got := WantsQuota(c.task.GPUTask); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestActivePodsOfRoles(t *testing.T) {
	t.Parallel()
	task := launcherAndWorkers()
	list := pods(task.pod(0, 0).running("node-1"), task.pod(1, 0).succeeded(), task.pod(2, 0).deletedAgo(time.Second))
	if diff := cmp.Diff(map[string]int{"launcher": 1, "worker": 1}, ActivePods(task.GPUTask, list)); diff != "" {
		t.Errorf("active (-want +got):\n%s", diff)
	}
}

func TestNeededPods(t *testing.T) {
	t.Parallel()
	array := makeTask("sweep").replicas(4).with(func(t *v1.GPUTask) { t.Spec.Completions = new(int32(10)) })
	for name, c := range map[string]struct {
		task              taskBuilder
		completed, failed string
		want              map[string]int
	}{
		"of a gang, those that have succeeded as well":  {launcherAndWorkers(), "1", "", map[string]int{"launcher": 1, "worker": 2}},
		"of an array, as many as run at the same time":  {array, "0-3", "4", map[string]int{"": 4}},
		"of an array, no more than have to succeed":     {array, "0-5", "6,7", map[string]int{"": 2}},
		"of an array of which all have succeeded, none": {array, "0-9", "", map[string]int{}},
	} {
		got, err := NeededPods(c.task.GPUTask, &v1.GPUTaskStatus{CompletedIndexes: c.completed, FailedIndexes: c.failed})
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s (-want +got):\n%s%v", name, diff, err)
		}
	}
	if _, err := NeededPods(array.GPUTask, &v1.GPUTaskStatus{CompletedIndexes: "x"}); err == nil {
		t.Error("indexes that are none were accepted")
	}
}

func TestAStrayPodIsActiveInTheFirstRole(t *testing.T) {
	t.Parallel()
	large, small := makeTask("train").replicas(4), makeTask("train").replicas(2)
	if got := ActivePods(small.GPUTask, pods(large.pod(3, 0).running("node-1"))); got[""] != 1 {
		t.Errorf("got %v", got)
	}
}
