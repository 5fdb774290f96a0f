// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// changesWhileSuspended are the changes of a task that its suspension allows, by the field: patches of
// the spec, and what they make of a Pod.
var changesWhileSuspended = map[string]struct {
	patch string
	shows func(*corev1.Pod) bool
}{
	"template": {
		`"template": {"spec": {"containers": [{"name": "gpu-task", "image": "new"}]}}`,
		func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == "new" },
	},
	"priority": {
		`"priority": "gpu-high-priority"`,
		func(pod *corev1.Pod) bool { return pod.Spec.PriorityClassName == "gpu-high-priority" },
	},
	"queue": {
		`"queue": "` + ownQueue + `"`,
		func(pod *corev1.Pod) bool { return pod.Labels[v1.LabelQueue] == pod.Namespace },
	},
	"checkpoint": {
		`"checkpoint": {"mode": "Signal", "timeoutSeconds": 7}`,
		func(pod *corev1.Pod) bool { return pod.Annotations[v1.AnnotationCheckpointTimeout] == "7" },
	},
	"roles": {
		`"roles": [{"name": "worker", "replicas": 2, "template": {"metadata": {"annotations": {"simulation.falldio.com/duration": "forever"}}, ` +
			`"spec": {"containers": [{"name": "gpu-task", "image": "new"}]}}}]`,
		func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == "new" },
	},
}

// ownQueue stands for the queue of the suite's namespace, which has the same name.
const ownQueue = "OWN"

// suspendChangeResume changes a task by two patches, one right after the other.
func (s *suite) suspendChangeResume(name, patch string) {
	s.Helper()
	s.patch(name, `{"spec": {"suspend": true}}`)
	s.patch(name, fmt.Sprintf(`{"spec": {"suspend": false, %s}}`, strings.ReplaceAll(patch, ownQueue, s.namespace)))
}

// waitForChange waits until the Pods of a task follow a change, and the task runs.
func (s *suite) waitForChange(name string, shows func(*corev1.Pod) bool) {
	s.Helper()
	s.waitForPods(name, "they follow the change", func(pods []corev1.Pod) bool {
		for i := range pods {
			if !shows(&pods[i]) {
				return false
			}
		}
		return len(pods) > 0
	})
	if restarts := s.waitForPhase(name, v1.PhaseRunning).Status.Restarts; restarts != 0 {
		s.Errorf("GPUTask %s: %d restarts were counted", name, restarts)
	}
}

// createChangeable creates a running task for each of changesWhileSuspended, and a queue.
func (s *suite) createChangeable() {
	s.Helper()
	s.createQueue(s.namespace, &v1.GPUQueueSpec{NamespaceSelector: s.onlyHere()})
	for name := range changesWhileSuspended {
		task := newTask(name, 2, "forever")
		if name == "roles" {
			task.Spec.Replicas, task.Spec.Roles = nil, []v1.Role{{Name: "worker", Replicas: new(int32(2))}}
		}
		s.create(task)
	}
	for name := range changesWhileSuspended {
		s.waitForPhase(name, v1.PhaseRunning)
	}
}

// TestAChangeWhileNobodyLooksIsFollowed: the controller never sees the tasks suspended.
func TestAChangeWhileNobodyLooksIsFollowed(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	first := s.startController()
	s.createChangeable()
	first.kill()
	for name, change := range changesWhileSuspended {
		s.suspendChangeResume(name, change.patch)
	}
	s.startController()
	for name, change := range changesWhileSuspended {
		s.waitForChange(name, change.shows)
	}
}

// TestASuspensionOfAMillisecondIsEnoughToChangeATask: a program need not wait for the phase Suspended.
func TestASuspensionOfAMillisecondIsEnoughToChangeATask(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.createChangeable()
	for name, change := range changesWhileSuspended {
		s.suspendChangeResume(name, change.patch)
		s.waitForChange(name, change.shows)
	}
	for try := range 10 {
		image := fmt.Sprintf("image-%d", try)
		s.suspendChangeResume("template", fmt.Sprintf(`"template": {"spec": {"containers": [{"name": "gpu-task", "image": %q}]}}`, image))
		s.waitForChange("template", func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == image })
	}
}

// TestAPlainSuspensionOfAMillisecondLeavesWhatRuns: nothing has changed that Pods depend on.
func TestAPlainSuspensionOfAMillisecondLeavesWhatRuns(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	first := s.startController()
	s.create(newTask("train", 2, "forever"))
	s.waitForPhase("train", v1.PhaseRunning)
	before := s.podsOf("train")
	first.kill()
	s.suspendChangeResume("train", `"backoffLimit": 3`)
	changed := s.get("train").Generation
	s.startController()
	s.waitForTask("train", "the generation observed", func(task *v1.GPUTask) bool { return task.Status.ObservedGeneration == changed })
	for i, pod := range s.podsOf("train") {
		if pod.UID != before[i].UID {
			t.Errorf("Pod %s was replaced", pod.Name)
		}
	}
}
