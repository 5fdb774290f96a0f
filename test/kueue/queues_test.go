// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

func TestATaskRunsWhenKueueAdmitsIt(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.queue("team-a", 4)
	first := s.submit("first", "team-a", 1, replicas(4))
	s.becomes("first", v1.PhaseRunning, "")
	s.conditionBecomes(first, kueue.PodsReady, metav1.ConditionTrue, "Started")
	for _, pod := range s.pods("first") {
		if pod.Spec.NodeSelector[v1.LabelGPUModel] != gpu || pod.Labels[kueue.LabelPodSet] != "main" {
			t.Errorf("Pod %s has the node selector %v and the labels %v", pod.Name, pod.Spec.NodeSelector, pod.Labels)
		}
	}
	second := s.submit("second", "team-a", 1, endsAfter("1s"))
	s.becomes("second", v1.PhaseSuspended, "waiting for quota in Kueue's queue")
	s.patch("first", `{"spec": {"suspend": true}}`)
	s.becomes("first", v1.PhaseSuspended, "kubectl gputask resume")
	s.becomes("second", v1.PhaseSucceeded, "")
	s.conditionBecomes(second, kueue.Finished, metav1.ConditionTrue, "Succeeded")
	s.patch("first", `{"spec": {"suspend": false}}`)
	s.becomes("first", v1.PhaseRunning, "")
}

func TestATaskWithoutALabelIsNotKueues(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	task := s.submit("free", "", 1, endsAfter("1s"), func(t *v1.GPUTask) { t.Labels = nil })
	s.becomes("free", v1.PhaseSucceeded, "")
	if s.workload(task) != nil {
		t.Error("it has a Workload")
	}
}

func TestPodsOfATaskAreNotQueuedOnceMore(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.queue("default", 2) // Kueue puts Pods into the queue of this name that have no owner in a queue
	s.submit("train", "default", 1, replicas(2))
	s.becomes("train", v1.PhaseRunning, "")
	for _, pod := range s.pods("train") {
		if pod.Labels[kueue.LabelQueue] != "" || len(pod.Finalizers) > 0 || len(pod.Spec.SchedulingGates) > 0 {
			t.Errorf("Kueue has taken over Pod %s: labels %v, finalizers %v", pod.Name, pod.Labels, pod.Finalizers)
		}
	}
	list, err := s.dynamic.Resource(kueue.Resource(kueue.Workloads)).Namespace(s.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("there are %d Workloads, error %v", len(list.Items), err)
	}
}

func TestTwoQueuesInACohort(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	cohort := "cohortName: " + s.namespace
	s.queue("team-a", 2, cohort, "preemption: {reclaimWithinCohort: Any}")
	s.queue("team-b", 2, cohort, "preemption: {reclaimWithinCohort: Any}")
	// Team A borrows what team B does not use.
	borrower := s.submit("borrower", "team-a", 2, replicas(2))
	s.becomes("borrower", v1.PhaseRunning, "")
	s.conditionBecomes(borrower, kueue.PodsReady, metav1.ConditionTrue, "Started")
	// Team B takes it back: the Pods of team A go first.
	owner := s.submit("owner", "team-b", 2, endsAfter("10s"))
	s.becomes("owner", v1.PhaseRunning, "")
	s.becomes("borrower", v1.PhaseSuspended, "waiting for quota")
	if pods := s.pods("borrower"); len(pods) > 0 {
		t.Errorf("it still has %d Pods", len(pods))
	}
	s.conditionBecomes(borrower, kueue.Requeued, metav1.ConditionTrue, "Preempted")
	s.conditionBecomes(borrower, kueue.PodsReady, metav1.ConditionFalse, "WaitForStart")
	// When team B has finished, team A goes on.
	s.becomes("owner", v1.PhaseSucceeded, "")
	s.conditionBecomes(owner, kueue.Finished, metav1.ConditionTrue, "Succeeded")
	again := s.becomes("borrower", v1.PhaseRunning, "")
	s.conditionBecomes(borrower, kueue.PodsReady, metav1.ConditionTrue, "Started")
	if again.Status.Restarts != 0 {
		t.Errorf("the eviction counted as %d failures", again.Status.Restarts)
	}
}

func TestPreemptionByPriority(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.queue("team-a", 1, "preemption: {withinClusterQueue: LowerPriority}")
	class := s.priorityClass()
	s.submit("low", "team-a", 1)
	s.becomes("low", v1.PhaseRunning, "")
	s.submit("high", "team-a", 1, endsAfter("2s"), func(task *v1.GPUTask) { task.Labels[kueue.LabelPriorityClass] = class })
	s.becomes("low", v1.PhaseSuspended, "waiting for quota")
	s.becomes("high", v1.PhaseSucceeded, "")
	s.becomes("low", v1.PhaseRunning, "")
}

func TestAGangRunsWithFewerPods(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.queue("team-a", 3)
	s.submit("gang", "team-a", 1, replicas(5), func(task *v1.GPUTask) { task.Spec.MinAvailable = new(int32(2)) })
	s.eventually("as many Pods run as there is quota for", func() (bool, string) {
		status := s.get("gang").Status
		return status.Phase == v1.PhaseRunning && status.Running == 3, fmt.Sprintf("%s: %d run", status.Phase, status.Running)
	})
	if pods := s.pods("gang"); len(pods) != 3 {
		t.Errorf("there are %d Pods", len(pods))
	}
}

func TestRolesArePodSets(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.queue("team-a", 4)
	task := s.submit("mpi", "team-a", 1, func(task *v1.GPUTask) {
		task.Spec.Roles = []v1.Role{{Name: "launcher", GPUAmount: "0"}, {Name: "worker", Replicas: new(int32(4))}}
	})
	s.becomes("mpi", v1.PhaseRunning, "")
	got := map[string]int32{}
	for _, assigned := range s.workload(task).Status.Admission.PodSetAssignments {
		got[assigned.Name] = *assigned.Count
	}
	if diff := cmp.Diff(map[string]int32{"launcher": 1, "worker": 4}, got); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
	for _, pod := range s.pods("mpi") {
		if pod.Labels[kueue.LabelPodSet] != pod.Labels[v1.LabelRole] {
			t.Errorf("Pod %s is in the pod set %s", pod.Name, pod.Labels[kueue.LabelPodSet])
		}
	}
}

func TestADrainedQueueAndADeactivatedWorkload(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.queue("team-a", 1)
	task := s.submit("train", "team-a", 1)
	s.becomes("train", v1.PhaseRunning, "")
	s.patchKueue("clusterqueues", "", s.namespace+"-team-a", `{"spec": {"stopPolicy": "HoldAndDrain"}}`)
	s.becomes("train", v1.PhaseSuspended, "")
	s.patchKueue("clusterqueues", "", s.namespace+"-team-a", `{"spec": {"stopPolicy": "None"}}`)
	s.becomes("train", v1.PhaseRunning, "")
	s.patchKueue(kueue.Workloads, s.namespace, kueue.WorkloadName(task), `{"spec": {"active": false}}`)
	s.becomes("train", v1.PhaseSuspended, "is deactivated")
	s.patchKueue(kueue.Workloads, s.namespace, kueue.WorkloadName(task), `{"spec": {"active": true}}`)
	s.becomes("train", v1.PhaseRunning, "")
	s.conditionBecomes(task, kueue.PodsReady, metav1.ConditionTrue, "Started")
}

func TestQuotaOfPodsThatHaveSucceededIsGivenBack(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.queue("team-a", 2)
	array := s.submit("array", "team-a", 1, replicas(2), endsAfter("2s"), func(task *v1.GPUTask) { task.Spec.Completions = new(int32(3)) })
	s.submit("next", "team-a", 1, endsAfter("1s"))
	s.eventually("the array needs one place only, or has finished", func() (bool, string) {
		workload := s.workload(array)
		return workload != nil && len(workload.Status.ReclaimablePods) == 1, s.workloadText(array)
	})
	s.becomes("array", v1.PhaseSucceeded, "")
	s.becomes("next", v1.PhaseSucceeded, "")
}

func TestATaskMovesToAnotherQueueWhileItWaits(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.queue("small", 1)
	s.queue("large", 8)
	s.submit("train", "small", 4)
	s.becomes("train", v1.PhaseSuspended, `queue "small"`)
	s.patch("train", `{"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "large"}}}`)
	s.becomes("train", v1.PhaseRunning, "")
}

// patchKueue changes an object of Kueue's API by a merge patch.
func (s *suite) patchKueue(resource, namespace, name, change string) {
	s.Helper()
	_, err := s.dynamic.Resource(kueue.Resource(resource)).Namespace(namespace).Patch(s.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func TestAGangWhosePodsDoNotStartQueuesAgain(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.queue("team-a", 1000)
	task := s.submit("gang", "team-a", 8, replicas(9)) // there are 8 nodes
	s.becomes("gang", v1.PhasePending, "")
	s.becomes("gang", v1.PhaseSuspended, "")
	s.conditionBecomes(task, kueue.Requeued, metav1.ConditionTrue, "BackoffFinished")
	s.becomes("gang", v1.PhasePending, "")
}

func TestANamespaceThatRequiresAQueue(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.queue("team-a", 1)
	early := s.submit("early", "team-a", 1, func(t *v1.GPUTask) { t.Labels = nil })
	_, err := s.kube.CoreV1().Namespaces().Patch(t.Context(), s.namespace, types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"falldio.com/queue-required": "true"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := s.tasks.FalldioV1().GPUTasks(s.namespace)
	s.eventually("a task without a queue is refused", func() (bool, string) {
		late := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"}}
		_, err := client.Create(t.Context(), late, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "must name a queue of this namespace"), fmt.Sprint(err)
	})
	s.submit("queued", "team-a", 1)
	s.becomes("queued", v1.PhaseRunning, "")
	for name, change := range map[string]string{
		"queued":   `{"metadata": {"labels": {"kueue.x-k8s.io/queue-name": null}}}`,
		early.Name: `{"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team-a"}}}`,
	} {
		_, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
		if (err == nil) != (name == early.Name) {
			t.Errorf("%s: %v", change, err)
		}
	}
}
