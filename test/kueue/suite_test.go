// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/localcluster/stages"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

const (
	// limit is how long a test waits for something that normally takes seconds.
	limit     = 90 * time.Second
	pollEvery = 50 * time.Millisecond
	// gpu is the model of the cluster's GPUs.
	gpu = "h100-80gb-hbm3"
)

// suite is a test's namespace, which is also the name of its flavor and the prefix of its queues.
type suite struct {
	*testing.T
	*testCluster
	namespace string
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	created, err := shared.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kueue-test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{T: t, testCluster: shared, namespace: created.Name}
	t.Cleanup(func() {
		if t.Failed() {
			s.dump()
		}
		if err := s.kube.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), s.namespace, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	s.eventually("the namespace has a service account", func() (bool, string) {
		_, err := s.kube.CoreV1().ServiceAccounts(s.namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	s.create(kueue.ResourceFlavors, "", fmt.Sprintf(`
kind: ResourceFlavor
metadata: {name: %s}
spec: {nodeLabels: {falldio.com/gpu: %s}}`, s.namespace, gpu))
	return s
}

// dump shows what the programs did about the suite's namespace.
func (s *suite) dump() {
	for name, one := range map[string]*program{"gpu-controller": s.controller, "kueue": s.kueue} {
		s.Logf("log of %s:\n%s", name, one.tail(60, s.namespace))
	}
}

// eventually waits until a condition holds; its text describes the current state otherwise.
func (s *suite) eventually(what string, holds func() (bool, string)) {
	s.Helper()
	deadline := time.Now().Add(limit)
	for {
		ok, instead := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("not within %v: %s; instead: %s", limit, what, instead)
		}
		time.Sleep(pollEvery)
	}
}

// create creates an object of Kueue's API from YAML, which is deleted at the end of the test.
func (s *suite) create(resource, namespace, text string) {
	s.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		s.Fatal(err)
	}
	object.SetAPIVersion(kueue.Group + "/" + kueue.Version)
	client := s.dynamic.Resource(kueue.Resource(resource)).Namespace(namespace)
	if _, err := client.Create(s.Context(), object, metav1.CreateOptions{}); err != nil {
		s.Fatalf("creating %s %s: %v", resource, object.GetName(), err)
	}
	if namespace == "" {
		s.Cleanup(func() {
			if err := client.Delete(context.WithoutCancel(s.Context()), object.GetName(), metav1.DeleteOptions{}); err != nil {
				s.Errorf("deleting %s %s: %v", resource, object.GetName(), err)
			}
		})
	}
}

// queue creates a queue with a number of GPUs, with further lines of a ClusterQueue's spec. Its
// ClusterQueue has the name of the namespace before its own.
func (s *suite) queue(name string, gpus int, spec ...string) {
	s.Helper()
	s.create("clusterqueues", "", fmt.Sprintf(`
kind: ClusterQueue
metadata: {name: %s-%s}
spec:
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
  resourceGroups:
  - coveredResources: [falldio.com/gpu]
    flavors: [{name: %s, resources: [{name: falldio.com/gpu, nominalQuota: %d}]}]
  %s`, s.namespace, name, s.namespace, s.namespace, gpus, strings.Join(spec, "\n  ")))
	s.create("localqueues", s.namespace, fmt.Sprintf(`
kind: LocalQueue
metadata: {name: %s}
spec: {clusterQueue: %s-%s}`, name, s.namespace, name))
}

// priorityClass creates a WorkloadPriorityClass above the default, and returns its name.
func (s *suite) priorityClass() string {
	s.Helper()
	s.create(kueue.WorkloadPriorityClasses, "", fmt.Sprintf("kind: WorkloadPriorityClass\nmetadata: {name: %s}\nvalue: 1000", s.namespace))
	return s.namespace
}

// submit creates a task with a number of GPUs in a queue. It runs until it is stopped, unless it is changed.
func (s *suite) submit(name, queue string, gpus int, change ...func(*v1.GPUTask)) *v1.GPUTask {
	s.Helper()
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace, Labels: map[string]string{kueue.LabelQueue: queue}},
		Spec: v1.GPUTaskSpec{GPUAmount: fmt.Sprint(gpus), Template: &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{stages.AnnotationDuration: stages.DurationForever}},
		}},
	}
	for _, apply := range change {
		apply(task)
	}
	created, err := s.tasks.FalldioV1().GPUTasks(s.namespace).Create(s.Context(), task, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return created
}

// endsAfter has the Pods of a task end by themselves.
func endsAfter(duration string) func(*v1.GPUTask) {
	return func(t *v1.GPUTask) { t.Spec.Template.Annotations[stages.AnnotationDuration] = duration }
}

func replicas(count int32) func(*v1.GPUTask) {
	return func(t *v1.GPUTask) { t.Spec.Replicas = &count }
}

// patch changes a task by a merge patch.
func (s *suite) patch(name, change string) {
	s.Helper()
	_, err := s.tasks.FalldioV1().GPUTasks(s.namespace).Patch(s.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) get(name string) *v1.GPUTask {
	s.Helper()
	task, err := s.tasks.FalldioV1().GPUTasks(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return task
}

// becomes waits until a task is in a phase, with a message that contains a text.
func (s *suite) becomes(name string, phase v1.GPUTaskPhase, text string) *v1.GPUTask {
	s.Helper()
	var task *v1.GPUTask
	s.eventually(fmt.Sprintf("%s is %s: %s", name, phase, text), func() (bool, string) {
		task = s.get(name)
		return task.Status.Phase == phase && strings.Contains(task.Status.Message, text),
			fmt.Sprintf("%s: %s; its Workload: %s", task.Status.Phase, task.Status.Message, s.workloadText(task))
	})
	return task
}

// workload returns the Workload of a task; nil if it has none.
func (s *suite) workload(task *v1.GPUTask) *kueue.Workload {
	object, err := s.dynamic.Resource(kueue.Resource(kueue.Workloads)).Namespace(s.namespace).Get(s.Context(), kueue.WorkloadName(task), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	workload, err := kueue.Read[kueue.Workload](object)
	if err != nil {
		s.Fatal(err)
	}
	return workload
}

func (s *suite) workloadText(task *v1.GPUTask) string {
	workload := s.workload(task)
	if workload == nil {
		return "none"
	}
	var texts []string
	for _, one := range workload.Status.Conditions {
		texts = append(texts, fmt.Sprintf("%s=%s (%s: %s)", one.Type, one.Status, one.Reason, one.Message))
	}
	for _, one := range workload.Status.AdmissionChecks {
		texts = append(texts, fmt.Sprintf("%s is %s (%s)", one.Name, one.State, one.Message))
	}
	return strings.Join(texts, ", ")
}

// conditionBecomes waits until a condition of a task's Workload has a status and a reason.
func (s *suite) conditionBecomes(task *v1.GPUTask, kind string, status metav1.ConditionStatus, reason string) {
	s.Helper()
	s.eventually(fmt.Sprintf("the Workload of %s has %s=%s (%s)", task.Name, kind, status, reason), func() (bool, string) {
		workload := s.workload(task)
		if workload == nil {
			return false, "there is none"
		}
		found := meta.FindStatusCondition(workload.Status.Conditions, kind)
		return found != nil && found.Status == status && found.Reason == reason, s.workloadText(task)
	})
}

// pods returns the Pods of a task.
func (s *suite) pods(name string) []corev1.Pod {
	s.Helper()
	list, err := s.kube.CoreV1().Pods(s.namespace).List(s.Context(), metav1.ListOptions{LabelSelector: v1.LabelTask + "=" + name})
	if err != nil {
		s.Fatal(err)
	}
	return list.Items
}
