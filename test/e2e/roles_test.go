// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// withRoles returns a task of a launcher without GPUs and two workers.
func withRoles(name, launcherDuration string) *v1.GPUTask {
	task := newTask(name, 1, "forever")
	task.Spec.Roles = []v1.Role{
		{Name: "launcher", GPUAmount: "0", Template: newTask("", 1, launcherDuration).Spec.Template},
		{Name: "worker", Replicas: new(int32(2))},
	}
	task.Spec.SuccessPolicy = &v1.SuccessPolicy{Rules: []v1.SuccessRule{{Role: "launcher"}}}
	return task
}

func TestATaskOfRolesSucceedsWithItsLauncher(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.create(withRoles("mpi", "3s"))
	task := s.waitForPhase("mpi", v1.PhaseRunning)
	want := []v1.RoleStatus{{Name: "launcher", Replicas: 1, Running: 1}, {Name: "worker", Replicas: 2, Running: 2}}
	if fmt.Sprint(task.Status.Roles) != fmt.Sprint(want) || task.Status.Total != 3 {
		t.Errorf("the roles are %+v of %d Pods, want %+v", task.Status.Roles, task.Status.Total, want)
	}
	task = s.waitForPhase("mpi", v1.PhaseSucceeded)
	if task.Status.CompletedIndexes != "0" || task.Status.Message != "1 Pod succeeded, as many as spec.successPolicy asks for" {
		t.Errorf("unexpected status: %+v", task.Status)
	}
	for _, pod := range s.podsOf("mpi") {
		if pod.Status.Phase == corev1.PodRunning {
			t.Errorf("Pod %s still runs", pod.Name)
		}
	}
}

func TestTheTemplatesOfRolesMayChangeWhileTheTaskIsSuspended(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	task := withRoles("mpi", "forever")
	task.Spec.Suspend = new(true)
	s.create(task)
	retried := func(change func(*v1.GPUTask)) error {
		task := s.get("mpi")
		change(task)
		_, err := s.tasks().Update(t.Context(), task, metav1.UpdateOptions{})
		return err
	}
	newTemplate := func(t *v1.GPUTask) {
		t.Spec.Roles[0].Template.Labels = map[string]string{"changed": t.ResourceVersion}
	}
	checkRefusal(t, retried(newTemplate), "")
	checkRefusal(t, retried(func(t *v1.GPUTask) { t.Spec.Roles[0].GPUAmount = "1" }), "spec.roles[0].gpu-amount: Invalid value: is immutable: delete the task and recreate it")
	checkRefusal(t, retried(func(t *v1.GPUTask) { t.Spec.Roles = t.Spec.Roles[:1] }), "the roles and their order are immutable")
	checkRefusal(t, retried(func(t *v1.GPUTask) { t.Spec.Suspend = nil }), "")
	checkRefusal(t, retried(newTemplate), "spec.roles: Invalid value: the templates are immutable while the task is not suspended")
}

func TestAnArrayRunsAllItsIndexes(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("scan", 2, "1s")
	task.Spec.Completions = new(int32(7))
	s.create(task)
	s.waitForTask("scan", "some Pods have succeeded", func(task *v1.GPUTask) bool { return task.Status.Succeeded > 0 })
	if pods := s.podsOf("scan"); len(active(pods)) > 2 {
		t.Errorf("%d Pods are active at the same time", len(active(pods)))
	}
	task = s.waitForPhase("scan", v1.PhaseSucceeded)
	if task.Status.CompletedIndexes != "0-6" {
		t.Errorf("the indexes %s have succeeded", task.Status.CompletedIndexes)
	}
}

func TestAnIndexOfAnArrayFailsAlone(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("scan", 1, "forever")
	task.Spec.Completions, task.Spec.BackoffLimitPerIndex = new(int32(2)), new(int32(0))
	s.create(task)
	for _, pod := range []string{"scan-0", "scan-1"} {
		s.waitForPods("scan", pod+" runs", func(pods []corev1.Pod) bool {
			return len(active(pods)) == 1 && active(pods)[0].Name == pod && active(pods)[0].Status.Phase == corev1.PodRunning
		})
		s.failPod(pod)
	}
	task = s.waitForPhase("scan", v1.PhaseFailed)
	if task.Status.FailedIndexes != "0,1" || task.Status.Message != "2 indexes of 2 failed: 0,1" {
		t.Errorf("unexpected status: %+v", task.Status)
	}
}

func TestAnElasticGangIsScaled(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("train", 1, "forever")
	task.Spec.MinAvailable, task.Spec.MaxReplicas = new(int32(1)), new(int32(3))
	s.create(task)
	s.newTenant()
	s.waitForPhase("train", v1.PhaseRunning)
	for _, replicas := range []int{3, 1} {
		checkRefusal(t, s.scale("train", replicas), "")
		s.waitForTask("train", fmt.Sprintf("%d Pods run", replicas), func(task *v1.GPUTask) bool {
			return int(task.Status.Running) == replicas && int(task.Status.Total) == replicas
		})
	}
	checkRefusal(t, s.scale("train", 4), "must not be greater than spec.maxReplicas")
	scale := &autoscalingv1.Scale{}
	err := s.cluster.tasks.FalldioV1().RESTClient().Get().Namespace(s.namespace).Resource("gputasks").Name("train").SubResource("scale").Do(t.Context()).Into(scale)
	if want := "falldio.com/gputask=train"; err != nil || scale.Status.Selector != want {
		t.Errorf("a HorizontalPodAutoscaler selects Pods with %q, want %q: %v", scale.Status.Selector, want, err)
	}
}

// scale runs kubectl scale as the tenant of the suite.
func (s *suite) scale(task string, replicas int) error {
	output, err := s.cluster.kubectl(s.Context(), "scale", "gputask", task, fmt.Sprintf("--replicas=%d", replicas), "--namespace="+s.namespace, "--as=tenant-of-"+s.namespace, "--as-group=system:authenticated")
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// active returns the Pods that have not ended.
func active(pods []corev1.Pod) (list []corev1.Pod) {
	for i := range pods {
		if phase := pods[i].Status.Phase; phase == corev1.PodPending || phase == corev1.PodRunning {
			list = append(list, pods[i])
		}
	}
	return list
}
