// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// newTask returns a task of two Pods in the queue "team-a".
func newTask(change ...func(*v1.GPUTask)) *v1.GPUTask {
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default", UID: "task-uid", Labels: map[string]string{LabelQueue: "team-a"}},
		Spec:       v1.GPUTaskSpec{GPUAmount: "2", Replicas: new(int32(2))},
	}
	for _, apply := range change {
		apply(task)
	}
	return task
}

func withRoles(t *v1.GPUTask) {
	t.Spec.Replicas = nil
	t.Spec.Roles = []v1.Role{{Name: "launcher", GPUAmount: "0"}, {Name: "worker", Replicas: new(int32(4)), GPUAmount: "8"}}
}

func asArray(t *v1.GPUTask) { t.Spec.Completions = new(int32(100)) }

func withMinAvailable(t *v1.GPUTask) { t.Spec.MinAvailable = new(int32(1)) }

func mustWorkload(t *testing.T, task *v1.GPUTask) *Workload {
	t.Helper()
	workload, err := NewWorkload(task, gputask.PodDefaults{Image: "cuda"}, Priority{})
	if err != nil {
		t.Fatal(err)
	}
	return workload
}

func TestPodSetsOfATask(t *testing.T) {
	t.Parallel()
	type set struct {
		Name           string
		Count          int32
		MinCount, GPUs int64
	}
	for name, c := range map[string]struct {
		change func(*v1.GPUTask)
		want   []set
	}{
		"a task without roles has one":                {func(*v1.GPUTask) {}, []set{{"main", 2, 0, 2}}},
		"each role has one":                           {withRoles, []set{{"launcher", 1, 0, 0}, {"worker", 4, 0, 8}}},
		"of an array, as many run as replicas says":   {asArray, []set{{"main", 2, 0, 2}}},
		"a gang may do with fewer":                    {withMinAvailable, []set{{"main", 2, 1, 2}}},
		"a gang that needs all of its Pods says none": {func(t *v1.GPUTask) { t.Spec.MinAvailable = new(int32(2)) }, []set{{"main", 2, 0, 2}}},
	} {
		var got []set
		for _, s := range mustWorkload(t, newTask(c.change)).Spec.PodSets {
			one := set{Name: s.Name, Count: s.Count}
			if s.MinCount != nil {
				one.MinCount = int64(*s.MinCount)
			}
			gpus := s.Template.Spec.Containers[0].Resources.Requests[v1.ResourceGPU]
			one.GPUs = gpus.Value()
			got = append(got, one)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestKueueIsToldOfSlicesByTheirResource(t *testing.T) {
	t.Parallel()
	task := newTask(func(task *v1.GPUTask) { task.Spec.GPUProfile = "1g.10gb" })
	requests := mustWorkload(t, task).Spec.PodSets[0].Template.Spec.Containers[0].Resources.Requests
	if diff := cmp.Diff(corev1.ResourceList{"falldio.com/mig-1g.10gb": resource.MustParse("2")}, requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAWorkloadShowsNothingOfWhatRuns(t *testing.T) {
	t.Parallel()
	task := newTask(func(task *v1.GPUTask) {
		task.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "fetch", Command: []string{"secret"}}},
			Containers: []corev1.Container{{
				Name: "main", Args: []string{"secret"}, Env: []corev1.EnvVar{{Name: "TOKEN", Value: "secret"}},
				EnvFrom: []corev1.EnvFromSource{{Prefix: "secret"}},
			}},
		}}
	})
	workload := mustWorkload(t, task)
	object, err := workload.Unstructured()
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if text := string(bytes); strings.Contains(text, "secret") || strings.Contains(text, `"status"`) {
		t.Errorf("the Workload is %s", text)
	}
	labels := workload.Spec.PodSets[0].Template.Labels
	if labels[v1.LabelIndex] != "" || labels[v1.LabelAttempt] != "" || labels[v1.LabelPodGroup] != "train" {
		t.Errorf("the labels of all Pods are %v", labels)
	}
	if task.Spec.Template.Spec.Containers[0].Env == nil {
		t.Error("the task was changed")
	}
}

func TestAWorkloadBelongsToItsTask(t *testing.T) {
	t.Parallel()
	task := newTask(func(t *v1.GPUTask) { t.Labels[LabelMaxExecTime] = "60" })
	workload := mustWorkload(t, task)
	if !metav1.IsControlledBy(workload, task) || workload.Labels[LabelJobUID] != "task-uid" || workload.Spec.QueueName != "team-a" {
		t.Errorf("owners %v, labels %v, queue %q", workload.OwnerReferences, workload.Labels, workload.Spec.QueueName)
	}
	if limit := workload.Spec.MaximumExecutionTimeSeconds; limit == nil || *limit != 60 {
		t.Errorf("its limit is %v", limit)
	}
	second := newTask(func(t *v1.GPUTask) { t.UID = "another" })
	if WorkloadName(task) == WorkloadName(second) || !strings.HasPrefix(WorkloadName(task), "gputask-train-") {
		t.Errorf("two tasks of one name have the Workloads %s and %s", WorkloadName(task), WorkloadName(second))
	}
	if _, err := NewWorkload(newTask(func(t *v1.GPUTask) { t.Labels[LabelMaxExecTime] = "soon" }), gputask.PodDefaults{}, Priority{}); err == nil {
		t.Error("a time that is no number was accepted")
	}
}

func TestTheClassOfATask(t *testing.T) {
	t.Parallel()
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{PriorityClassName: "low"}}
	for name, c := range map[string]struct {
		change func(*v1.GPUTask)
		want   *PriorityClassRef
	}{
		"none is set":      {func(*v1.GPUTask) {}, nil},
		"the template's":   {func(t *v1.GPUTask) { t.Spec.Template = template }, PodPriorityClass("low")},
		"the task's":       {func(t *v1.GPUTask) { t.Spec.Template, t.Spec.Priority = template, "high" }, PodPriorityClass("high")},
		"a role's":         {func(t *v1.GPUTask) { withRoles(t); t.Spec.Roles[1].Template = template }, PodPriorityClass("low")},
		"the label's wins": {func(t *v1.GPUTask) { t.Spec.Priority, t.Labels[LabelPriorityClass] = "high", "prod" }, &PriorityClassRef{Group: Group, Kind: "WorkloadPriorityClass", Name: "prod"}},
	} {
		if diff := cmp.Diff(c.want, ClassOf(newTask(c.change))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Workload", "metadata": map[string]any{"name": "train"}, "spec": map[string]any{"podSets": "none"},
	}}
	if _, err := Read[Workload](object); err == nil || !strings.Contains(err.Error(), "Workload train") {
		t.Errorf("got error %v", err)
	}
}
