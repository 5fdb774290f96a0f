// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/localcluster/stages"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

// job creates a Job of Pods with a number of GPUs each, which run for a second. Kueue makes the
// Workload of a Job itself.
func (s *suite) job(name, queue string, pods int32, gpus int, change ...func(*batchv1.Job)) {
	s.Helper()
	requests := corev1.ResourceList{v1.ResourceGPU: resource.MustParse(fmt.Sprint(gpus))}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace, Labels: map[string]string{kueue.LabelQueue: queue}},
		Spec: batchv1.JobSpec{Parallelism: &pods, Completions: &pods, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{stages.AnnotationDuration: "1s"}},
			Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers: []corev1.Container{{Name: "main", Image: "cuda", Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests}}},
			},
		}},
	}
	for _, apply := range change {
		apply(job)
	}
	if _, err := s.kube.BatchV1().Jobs(s.namespace).Create(s.Context(), job, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// completes waits until all Pods of a Job have succeeded.
func (s *suite) completes(job string) {
	s.Helper()
	s.eventually("Job "+job+" has completed", func() (bool, string) {
		got, err := s.kube.BatchV1().Jobs(s.namespace).Get(s.Context(), job, metav1.GetOptions{})
		return err == nil && got.Status.Succeeded == *got.Spec.Completions, fmt.Sprint(err, got.Status)
	})
}

// workloadOfJob returns the Workload of a Job; nil if it has none.
func (s *suite) workloadOfJob(job string) *kueue.Workload {
	s.Helper()
	list, err := s.dynamic.Resource(kueue.Resource(kueue.Workloads)).Namespace(s.namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range list.Items {
		if owner := metav1.GetControllerOf(&list.Items[i]); owner == nil || owner.Kind != "Job" || owner.Name != job {
			continue
		}
		workload, err := kueue.Read[kueue.Workload](&list.Items[i])
		if err != nil {
			s.Fatal(err)
		}
		return workload
	}
	return nil
}
