// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// These tests attack what tenants declare of their work to get something before others: see docs/security.md.

const (
	notTheirRuntime = "the annotation falldio.com/max-runtime-seconds of a Pod of a GPUTask is written by gpu-controller only"
	notTheirRequest = "the annotation falldio.com/checkpoint-requested is written by gpu-scheduler and gpu-controller only"
	aPromise        = "spec.maxRuntimeSeconds can only be lowered, unless the task is suspended"
)

// TestARunTimeThatIsDeclaredIsKept attacks with short run times of tasks that then run for longer.
func TestARunTimeThatIsDeclaredIsKept(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	tenant := s.newTenant()
	task := newTask("train", 1, "forever")
	task.Spec.MaxRuntimeSeconds = new(int64(3600))
	s.create(task)
	s.waitForPhase("train", v1.PhaseRunning)
	patch := func(text string) error {
		_, err := tenant.tasks.FalldioV1().GPUTasks(s.namespace).Patch(t.Context(), "train", types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	const raised = `{"spec": {"maxRuntimeSeconds": 7200}}`
	checkRefusal(t, patch(raised), aPromise)
	checkRefusal(t, patch(`{"spec": {"maxRuntimeSeconds": null}}`), aPromise)
	checkRefusal(t, patch(`{"spec": {"suspend": true, "maxRuntimeSeconds": 7200}}`), aPromise)
	checkRefusal(t, patch(`{"spec": {"maxRuntimeSeconds": 3599}}`), "")
	_, err := s.tasks().Patch(t.Context(), "train", types.MergePatchType, []byte(raised), dryRun())
	checkRefusal(t, err, "") // an administrator
	s.suspend("train", true)
	s.waitForPhase("train", v1.PhaseSuspended)
	checkRefusal(t, patch(raised), "")
}

// TestATenantDoesNotSayHowLongAPodOfATaskRuns attacks with Pods that look as if gpu-controller had created them.
func TestATenantDoesNotSayHowLongAPodOfATaskRuns(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tenant := s.newTenant()
	task := s.create(newTask("train", 1, "forever"))
	owner := metav1.NewControllerRef(task, v1.TaskKind())
	owner.BlockOwnerDeletion = nil
	pods := tenant.kube.CoreV1().Pods(s.namespace)
	claiming := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		pod := gpuPod(name, "1")
		pod.Annotations = map[string]string{v1.AnnotationMaxRuntime: "1"}
		change(pod)
		return pod
	}
	_, err := pods.Create(t.Context(), claiming("forged", func(pod *corev1.Pod) { pod.OwnerReferences = []metav1.OwnerReference{*owner} }), dryCreation())
	checkRefusal(t, err, notTheirRuntime)
	_, err = pods.Create(t.Context(), claiming("adopted", func(*corev1.Pod) {}), metav1.CreateOptions{})
	checkRefusal(t, err, "") // nobody believes it
	text := `{"metadata": {"ownerReferences": [{"apiVersion": "falldio.com/v1", "kind": "GPUTask", "name": "train", "controller": true, "uid": "` + string(task.UID) + `"}]}}`
	_, err = pods.Patch(t.Context(), "adopted", types.MergePatchType, []byte(text), dryRun())
	checkRefusal(t, err, notTheirRuntime)
}

// TestATenantDoesNotSayWhenAPodWasAskedForACheckpoint: who was just asked has time, so that who says so again and again
// would never be stopped.
func TestATenantDoesNotSayWhenAPodWasAskedForACheckpoint(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tenant := s.newTenant()
	pods := tenant.kube.CoreV1().Pods(s.namespace)
	pod := gpuPod("asked", "1")
	pod.Annotations = map[string]string{v1.AnnotationCheckpointTimeout: "60"}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const request = `{"metadata": {"annotations": {"falldio.com/checkpoint-requested": "2026-11-21T12:00:00Z"}}}`
	_, err := pods.Patch(t.Context(), "asked", types.MergePatchType, []byte(request), dryRun())
	checkRefusal(t, err, notTheirRequest)
	pod.Name, pod.Annotations = "other", map[string]string{v1.AnnotationCheckpointRequested: "2026-11-21T12:00:00Z"}
	_, err = pods.Create(t.Context(), pod, dryCreation())
	checkRefusal(t, err, notTheirRequest)
	_, err = s.cluster.kube.CoreV1().Pods(s.namespace).Patch(t.Context(), "asked", types.MergePatchType, []byte(request), metav1.PatchOptions{})
	checkRefusal(t, err, "") // who may bind Pods
	_, err = pods.Patch(t.Context(), "asked", types.MergePatchType, []byte(`{"metadata": {"annotations": {"falldio.com/checkpoint-requested": null}}}`), dryRun())
	checkRefusal(t, err, notTheirRequest)
	_, err = pods.Patch(t.Context(), "asked", types.MergePatchType, []byte(`{"metadata": {"annotations": {"falldio.com/last-checkpoint": "2026-11-21T12:00:01Z"}}}`), dryRun())
	checkRefusal(t, err, "")
}

// TestATenantDoesNotKeepGPUsByItsGracePeriod: who is preempted keeps its GPUs for as long as that.
func TestATenantDoesNotKeepGPUsByItsGracePeriod(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tenant := s.newTenant()
	for what, test := range map[string]struct {
		seconds int64
		gpus    bool
		refusal string
	}{
		"two hours":             {7200, true, ""},
		"longer":                {7201, true, "spec.terminationGracePeriodSeconds of a Pod that asks for GPUs must be at most 7200"},
		"longer without GPUs":   {1 << 30, false, ""},
		"as long as there is":   {1<<63 - 1, true, "must be at most 7200"},
		"Kubernetes' own value": {30, true, ""},
	} {
		pod := gpuPod("lingers", "1")
		pod.Spec.TerminationGracePeriodSeconds = &test.seconds
		if !test.gpus {
			pod.Spec.Containers[0].Resources.Limits = nil
		}
		s.Log(what)
		_, err := tenant.kube.CoreV1().Pods(s.namespace).Create(t.Context(), pod, dryCreation())
		checkRefusal(t, err, test.refusal)
	}
}
