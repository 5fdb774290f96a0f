// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestATaskThatFitsNowhereSaysWhy(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("big", 1, "1s")
	task.Spec.GPUAmount = "16"
	s.create(task)
	s.waitForMessage("big", "it would not fit even if nothing else ran; ")
	unknown := newTask("unknown", 2, "1s")
	unknown.Spec.GPU = "gpu-of-tomorrow"
	s.create(unknown)
	s.waitForMessage("unknown", "no node has gpu-of-tomorrow")
}

func TestAMissingPriorityClassIsExplainedUntilItComes(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	class := "urgent-" + s.namespace
	task := newTask("train", 1, "1s")
	task.Spec.Priority = class
	created := s.create(task)
	s.waitForMessage("train", `there is no PriorityClass "`+class+`": create it, or recreate the task with another spec.priority`)
	s.waitForEvent(created, "PriorityClassNotFound")
	classes := s.cluster.kube.SchedulingV1().PriorityClasses()
	if _, err := classes.Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Value: 5}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForPhase("train", v1.PhaseSucceeded)
	if err := classes.Delete(t.Context(), class, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func TestAnExceededQuotaIsExplainedUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.setQuota("gpus", corev1.ResourceList{"requests.falldio.com/gpu": resource.MustParse("2")})
	s.startController()
	s.create(newTask("train", 3, "3s"))
	s.waitForMessage("train", "exceeded quota: gpus, requested: requests.falldio.com/gpu=1, limited: requests.falldio.com/gpu=2")
	if err := s.cluster.kube.CoreV1().ResourceQuotas(s.namespace).Delete(t.Context(), "gpus", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForPhase("train", v1.PhaseSucceeded)
}

// TestGangsUnderAQuotaDoNotWaitForEachOther: there is room for the Pods of one gang at a time. If
// each kept what it gets, all of them would wait for ever.
func TestGangsUnderAQuotaDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.setQuota("gpus", corev1.ResourceList{"requests.falldio.com/gpu": resource.MustParse("10")})
	s.startController()
	gangs := []string{"one", "two", "three"}
	for _, name := range gangs {
		s.create(newTask(name, 8, "1s"))
	}
	for _, name := range gangs {
		s.waitForPhase(name, v1.PhaseSucceeded)
	}
}

// setQuota limits the namespace, and waits until the limit is in force.
func (s *suite) setQuota(name string, hard corev1.ResourceList) {
	s.Helper()
	quotas := s.cluster.kube.CoreV1().ResourceQuotas(s.namespace)
	_, err := quotas.Create(s.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.eventually("the quota is in force", func() (bool, string) {
		quota, err := quotas.Get(s.Context(), name, metav1.GetOptions{})
		return err == nil && len(quota.Status.Hard) > 0, "no status"
	})
}

func TestATaskWhoseTemplateMakesNoPodWaitsAndSaysWhy(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("train", 2, "1s")
	task.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{Name: "gpu-task", Image: "x", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
	}
	s.create(task)
	// A webhook may be the cause, and be repaired: it is no failure of the task.
	s.waitForMessage("train", `the API server refuses the Pod: spec.containers[0].volumeMounts[0].name: Not found: "data"; correct the template while the task is suspended, unless a webhook has changed the Pod`)
	s.waitForPhase("train", v1.PhasePending)
}

func TestAForeignPodOfTheSameNameIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	pods := s.cluster.kube.CoreV1().Pods(s.namespace)
	foreign, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Labels: map[string]string{v1.LabelApp: v1.LabelAppValue, v1.LabelTask: "train"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	task := s.create(newTask("train", 1, "1s"))
	s.waitForMessage("train", `a Pod named "train" exists already and does not belong to this task`)
	s.waitForEvent(task, "PodNameTaken")
	got, err := pods.Get(t.Context(), "train", metav1.GetOptions{})
	if err != nil || got.UID != foreign.UID || got.DeletionTimestamp != nil || len(got.OwnerReferences) != 0 {
		t.Fatalf("the foreign Pod was touched: %+v, %v", got.ObjectMeta, err)
	}
	if err := pods.Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForPhase("train", v1.PhaseSucceeded)
}
