// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestAGangOfEightWaitsWhereThereIsRoomForSix is the documents' example.
func TestAGangOfEightWaitsWhereThereIsRoomForSix(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machine{name: "four", gpus: 4}, machine{name: "two", gpus: 2})
	s.createPods(gang{name: "eight", pods: 8})
	s.waitForRefusal("eight", "needs at once 8 × 1 GPU")
	s.waitForBound(0, "eight")
	s.addNode(machine{name: "room", gpus: 2})
	s.waitForBound(8, "eight")
}

func TestATaskOfEightWaitsWhereThereIsRoomForSixAndSaysSo(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machine{name: "four", gpus: 4}, machine{name: "two", gpus: 2})
	s.createTasks(gang{name: "eight", pods: 8, duration: "1s"})
	s.waitForRefusal("eight", "needs at once 8 × 1 GPU")
	s.eventually("the task says so itself", func() (bool, string) {
		task := s.getTask("eight")
		return task.Status.Phase == v1.PhasePending && strings.Contains(task.Status.Message, "needs at once 8 × 1 GPU"), task.Status.Message
	})
	s.waitForBound(0, "eight")
	s.addNode(machine{name: "room", gpus: 2})
	s.waitForTask("eight", v1.PhaseSucceeded)
}

func TestAGangWaitsForItsLastPod(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "n", gpus: 8})
	four := gang{name: "four", pods: 4}
	for index := range 3 {
		s.createPod(s.podOf(four, index))
	}
	s.createPods(gang{name: "later"})
	s.waitForBound(1, "later")
	s.waitForBound(0, "four")
	s.createPod(s.podOf(four, 3))
	s.waitForBound(4, "four")
}

func TestPodsAboveTheMinimumJoinWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "six", gpus: 6})
	s.createTasks(gang{name: "elastic", pods: 8, min: 4})
	s.waitForBound(6, "elastic")
	s.waitForTask("elastic", v1.PhaseRunning)
	s.addNode(machine{name: "two", gpus: 2})
	s.waitForBound(8, "elastic")
}

// TestGangsThatHalfFitDoNotBlockEachOther covers the deadlock of schedulers that place
// Pods one by one: each of two gangs holds half of what it needs.
func TestGangsThatHalfFitDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(2, machine{name: "n", gpus: 4})...)
	var gangs []gang
	var names []string
	for i := range 6 {
		g := gang{name: fmt.Sprintf("half-%d", i), pods: 5, duration: "500ms"}
		gangs, names = append(gangs, g), append(names, g.name)
	}
	s.createPods(gangs...) // the first Pod of each, the second of each, …
	s.waitForEnd(5, names...)
	if held := s.ledger.heldCards(); held != 0 {
		t.Errorf("%d GPUs are still held", held)
	}
}

func TestAGangThatCannotStartBlocksNobody(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(2, machine{name: "n", gpus: 4})...)
	s.createPods(
		gang{name: "big", pods: 3, gpus: 4, priority: high, infeasible: true},
		gang{name: "wide", gpus: 5, priority: high, infeasible: true},
		gang{name: "nowhere", pods: 2, model: "no-such-model", priority: high, infeasible: true},
	)
	for name, text := range map[string]string{"big": "with 2 of its 3 Pods", "wide": "too few GPUs", "nowhere": "1 GPU of no-such-model"} {
		s.waitForRefusal(name, text)
	}
	var names []string
	for i := range 6 {
		g := gang{name: fmt.Sprintf("small-%d", i), pods: 4, priority: low, duration: "300ms"}
		names = append(names, g.name)
		s.createPods(g)
	}
	s.waitForEnd(4, names...)
	s.waitForBound(0, "big", "wide", "nowhere")
}

func TestAGangOfDifferentPodsStartsTogether(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "a", gpus: 8})
	roles := []gang{
		{name: "mixed", min: 4, gpus: 4}, {name: "mixed", min: 4, gpus: 4}, {name: "mixed", min: 4, percent: 50}, {name: "mixed", min: 4, gpus: 1},
	}
	for index, role := range roles {
		s.createPod(s.podOf(role, index))
	}
	s.waitForRefusal("mixed", "needs at once")
	s.waitForBound(0, "mixed")
	s.addNode(machine{name: "b", gpus: 2})
	s.waitForBound(4, "mixed")
}

// TestTheWorkersOfAJobAreAGangByLabel and the next test show that any controller will do.
func TestTheWorkersOfAJobAreAGangByLabel(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "three", gpus: 3})
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](4), Completions: ptr.To[int32](4), CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Template: s.template(gang{name: "job", pods: 4, duration: "500ms"}),
		},
	}
	if _, err := s.kube.BatchV1().Jobs(s.namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForRefusal("job", "needs at once 4 × 1 GPU")
	s.waitForBound(0, "job")
	s.addNode(machine{name: "one", gpus: 1})
	s.eventually("the Job is complete", func() (bool, string) {
		got, err := s.kube.BatchV1().Jobs(s.namespace).Get(t.Context(), "job", metav1.GetOptions{})
		return err == nil && got.Status.Succeeded == 4, fmt.Sprint(err, got.Status)
	})
}

func TestTheReplicasOfADeploymentAreAGangByLabel(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "two", gpus: 2})
	template := s.template(gang{name: "serve", pods: 3})
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "serve"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](3), Template: template,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"gang": "serve"}},
		},
	}
	if _, err := s.kube.AppsV1().Deployments(s.namespace).Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForRefusal("serve", "needs at once 3 × 1 GPU")
	s.waitForBound(0, "serve")
	s.addNode(machine{name: "one", gpus: 1})
	s.waitForBound(3, "serve")
}

// TestGPUsAreFreeAgainWhenTheirPodHasEnded runs Pods one after the other: nothing else is
// scheduled between the start and the end of each.
func TestGPUsAreFreeAgainWhenTheirPodHasEnded(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	name := s.namespace
	s.startScheduler(name, nil) // a scheduler with nothing else to do
	s.addNodes(machines(2, machine{name: "n", gpus: 4})...)
	for i := range 4 {
		one, two := gang{name: fmt.Sprintf("one-%d", i), gpus: 4, scheduler: name, duration: "1ms"}, gang{name: fmt.Sprintf("two-%d", i), pods: 2, gpus: 4, scheduler: name, duration: "1ms"}
		s.createPods(one)
		s.waitForEnd(1, one.name)
		s.createPods(two)
		s.waitForEnd(2, two.name)
	}
}
