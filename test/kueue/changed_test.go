// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"falldio.github.io/gpu-controller/localcluster/stages"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

// TestATemplateThatChangesUnderKueue changes the template twice, each time with spec.suspend true for a moment only:
// gpu-controller may see that, or only that the template is another one. The first template runs for ever, the last one
// ends.
func TestATemplateThatChangesUnderKueue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// gpus is how many the queue has, of which another task uses one.
		gpus int
		// nowhere is whether no node fits the first template.
		nowhere bool
		phase   v1.GPUTaskPhase
		message string
		// release lets the task run that was changed.
		release func(*suite)
	}{
		"while it waits for quota": {
			gpus: 1, phase: v1.PhaseSuspended, message: "waiting for quota in Kueue's queue",
			release: func(s *suite) { s.patch("holder", `{"spec": {"suspend": true}}`) },
		},
		"while an admission check finds no place for it": {gpus: 2, nowhere: true, phase: v1.PhaseSuspended, message: "there is no place"},
		"while it runs": {gpus: 2, phase: v1.PhaseRunning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSuite(t)
			s.queue("team-a", test.gpus, s.gpuFit())
			s.submit("holder", "team-a", 1)
			s.becomes("holder", v1.PhaseRunning, "")
			begin := s.version()
			task := s.submit("train", "team-a", 1, func(task *v1.GPUTask) {
				if test.nowhere {
					task.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "none"}
				}
			})
			s.becomes("train", test.phase, test.message)
			for _, step := range []string{"1", "2"} {
				s.patch("train", `{"spec": {"suspend": true}}`)
				s.patch("train", fmt.Sprintf(`{"spec": {"suspend": false, "template": {
					"metadata": {"annotations": {"step": %q, %q: "2s"}}, "spec": {"nodeSelector": null}}}}`, step, stages.AnnotationDuration))
			}
			if test.release != nil {
				test.release(s)
			}
			changed := s.becomes("train", v1.PhaseSucceeded, "")
			s.conditionBecomes(task, kueue.Finished, metav1.ConditionTrue, "Succeeded")
			hash, workload := gputask.TemplateHash(changed), s.workload(task)
			if got, step := workload.Labels[v1.LabelTemplateHash], workload.Spec.PodSets[0].Template.Annotations["step"]; got != hash || step != "2" {
				t.Errorf("the Workload has the hash %s and the template of step %q, want %s and 2", got, step, hash)
			}
			for _, pod := range s.pods("train") {
				if pod.Labels[v1.LabelTemplateHash] != hash || pod.Annotations["step"] != "2" {
					t.Errorf("Pod %s has the hash %s and the template of step %q, want %s and 2", pod.Name, pod.Labels[v1.LabelTemplateHash], pod.Annotations["step"], hash)
				}
			}
			workloads, pods := s.created(kueue.Resource(kueue.Workloads), begin), s.created(corev1.SchemeGroupVersion.WithResource("pods"), begin)
			if workloads > 3 || pods > 3 {
				t.Errorf("%d Workloads and %d Pods were created, want at most one for each template", workloads, pods)
			}
		})
	}
}

// version returns the present version of everything.
func (s *suite) version() string {
	s.Helper()
	list, err := s.kube.CoreV1().Pods(s.namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return list.ResourceVersion
}

// created returns how many objects were created for the task "train" since a version, whether they still exist or not.
func (s *suite) created(resource schema.GroupVersionResource, since string) int {
	s.Helper()
	watcher, err := s.dynamic.Resource(resource).Namespace(s.namespace).Watch(s.Context(), metav1.ListOptions{
		LabelSelector: v1.LabelTask + "=train", ResourceVersion: since, TimeoutSeconds: new(int64(3)),
	})
	if err != nil {
		s.Fatal(err)
	}
	defer watcher.Stop()
	count := 0
	for event := range watcher.ResultChan() {
		if event.Type == watch.Added {
			count++
		}
	}
	return count
}
