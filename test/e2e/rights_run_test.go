// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/artifacts"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// finishNow is the annotation that ends a simulated Pod successfully.
const finishNow = `{"metadata": {"annotations": {"simulation.falldio.com/exit-code": "0", "simulation.falldio.com/finish-at": "2026-01-01T00:00:00Z"}}}`

// impatientScheduler returns the path of the shipped configuration of gpu-scheduler, with
// little time for incomplete gangs, more than shrinkAGang takes, which writes what it learns soon.
func impatientScheduler(t *testing.T, dir string) string {
	t.Helper()
	config, err := artifacts.Files.ReadFile(artifacts.SchedulerConfig)
	if err != nil {
		t.Fatal(err)
	}
	const kind = "kind: GPUGangArgs\n"
	changed := strings.Replace(string(config), kind, kind+"          partialGangTimeoutSeconds: 10\n          historyPeriodSeconds: 2\n", 1)
	path := filepath.Join(dir, "scheduler.yaml")
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// useEveryRight makes gpu-controller, gpu-scheduler and nodeagent do what they are for. The cluster
// has the nodes move-0, move-1 and gang-0 with two GPUs each.
func (s *suite) useEveryRight() {
	s.Helper()
	s.servePodGroups()
	s.takeNames()
	s.suspendTwice()
	s.expire()
	s.shrinkAGang()
	s.leaveAGangIncomplete()
	s.makeRoom()
	s.outdateAPlan()
	s.useAQueue()
	s.breakAGPUTwice()
}

// servePodGroups installs the PodGroups of other schedulers and restarts gpu-scheduler, which
// looks for them once a minute otherwise.
func (s *suite) servePodGroups() {
	s.Helper()
	definitions := s.cluster.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for group, version := range map[string]string{
		"scheduling.volcano.sh": "v1beta1", "scheduling.x-k8s.io": "v1alpha1", "scheduling.sigs.k8s.io": "v1alpha1",
	} {
		definition := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{
				"name":        "podgroups." + group,
				"annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for a test"}, // of k8s.io
			},
			"spec": map[string]any{
				"group": group, "scope": "Namespaced",
				"names": map[string]any{"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"},
				"versions": []any{map[string]any{
					"name": version, "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
				}},
			},
		}}
		if _, err := definitions.Create(s.Context(), definition, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
		groups := s.cluster.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "podgroups"})
		s.eventually("the API server serves "+group, func() (bool, string) {
			_, err := groups.List(s.Context(), metav1.ListOptions{})
			return err == nil, fmt.Sprint(err)
		})
	}
	s.killScheduler()
}

// takeNames creates a Pod and a Service under names that tasks need.
func (s *suite) takeNames() {
	s.Helper()
	s.createPod("taken", "")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "served"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
	if _, err := s.cluster.kube.CoreV1().Services(s.namespace).Create(s.Context(), service, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.create(newTask("taken", 1, "1s"))
	s.waitForMessage("taken", `a Pod named "taken" exists already`)
	s.create(newTask("served", 2, "1s"))
	s.waitForMessage("served", `a Service named "served" exists already`)
	s.deleteTasks("taken", "served")
}

// suspendTwice has the same Event recorded twice.
func (s *suite) suspendTwice() {
	s.Helper()
	s.create(newTask("paused", 1, "forever"))
	for range 2 {
		s.waitForPhase("paused", v1.PhaseRunning)
		s.suspend("paused", true)
		s.waitForPhase("paused", v1.PhaseSuspended)
		s.suspend("paused", false)
	}
	s.deleteTasks("paused")
}

// expire runs a task that is deleted when it has ended.
func (s *suite) expire() {
	s.Helper()
	task := newTask("short", 1, "1s")
	task.Spec.TTLSecondsAfterFinished = ptr.To[int32](0)
	s.create(task)
	s.waitUntilGone("short")
}

// shrinkAGang has one member of a gang succeed while the other waits for a node again.
func (s *suite) shrinkAGang() {
	s.Helper()
	s.create(newTask("gang", 2, "forever"))
	s.waitForPhase("gang", v1.PhaseRunning)
	s.patchNode("gang-0", `{"spec": {"unschedulable": true}}`)
	lost, err := s.cluster.kube.CoreV1().Pods(s.namespace).Get(s.Context(), "gang-1", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if err := s.cluster.kube.CoreV1().Pods(s.namespace).Delete(s.Context(), "gang-1", metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.waitForPods("gang", "the lost one is replaced", func(pods []corev1.Pod) bool { return len(pods) == 2 && pods[1].UID != lost.UID })
	s.patchPod("gang-0", finishNow)
	s.waitForPods("gang", "the other one does not wait for it", func(pods []corev1.Pod) bool {
		return len(pods) == 2 && pods[1].Labels[v1.LabelMinAvailable] == "1"
	})
	s.patchNode("gang-0", `{"spec": {"unschedulable": false}}`)
	s.deleteTasks("gang")
}

// leaveAGangIncomplete binds one Pod of a gang whose other Pod fits nowhere.
func (s *suite) leaveAGangIncomplete() {
	s.Helper()
	pods := s.cluster.kube.CoreV1().Pods(s.namespace)
	for name, gpus := range map[string]string{"bound": "1", "huge": "99"} {
		pod := gpuPod(name, gpus)
		pod.Spec.SchedulerName, pod.Spec.NodeSelector = "gpu-scheduler", nil
		pod.Labels = map[string]string{v1.LabelPodGroup: "incomplete", v1.LabelMinAvailable: "2"}
		if _, err := pods.Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Target: corev1.ObjectReference{Kind: "Node", Name: "gang-0"}}
	if err := pods.Bind(s.Context(), binding, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.eventually("the bound Pod is evicted", func() (bool, string) {
		_, err := pods.Get(s.Context(), "bound", metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprintf("it is there: %v", err)
	})
	if err := pods.Delete(s.Context(), "huge", metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

// makeRoom leaves one free GPU on each of two nodes, for a task that needs two on one node.
func (s *suite) makeRoom() {
	s.Helper()
	on := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		s.create(onRTX4090(newTask(name, 1, "forever")))
		s.waitForPhase(name, v1.PhaseRunning)
		on[s.podsOf(name)[0].Spec.NodeName] = name
	}
	for _, name := range on {
		s.patchPod(name, finishNow)
		s.waitForPhase(name, v1.PhaseSucceeded)
	}
	big := onRTX4090(newTask("big", 1, "forever"))
	big.Spec.GPUAmount = "2"
	s.create(big)
	s.waitForPhase("big", v1.PhaseRunning)
}

func onRTX4090(task *v1.GPUTask) *v1.GPUTask {
	task.Spec.GPU = "rtx4090"
	return task
}

// outdateAPlan creates a MovePlan that ended long ago.
func (s *suite) outdateAPlan() {
	s.Helper()
	plan := &v1.MovePlan{}
	if err := yaml.Unmarshal([]byte(movePlan), plan); err != nil {
		s.Fatal(err)
	}
	plan.Name = "outdated"
	plans := s.cluster.tasks.FalldioV1().MovePlans()
	if _, err := plans.Create(s.Context(), plan, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	_, err := plans.Patch(s.Context(), plan.Name, types.MergePatchType,
		[]byte(`{"status": {"phase": "Done", "completionTime": "2026-01-01T00:00:00Z"}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		s.Fatal(err)
	}
	s.eventually("the plan is deleted", func() (bool, string) {
		_, err := plans.Get(s.Context(), plan.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// useAQueue has the status of a queue written.
func (s *suite) useAQueue() {
	s.Helper()
	s.createQueue("used", &v1.GPUQueueSpec{NamespaceSelector: &metav1.LabelSelector{}})
	s.waitForQueue("used", "it is ready and says what big holds", func(queue *v1.GPUQueue) bool {
		return meta.IsStatusConditionTrue(queue.Status.Conditions, v1.ConditionQueueReady) && queue.Status.Summary != nil && queue.Status.Summary.Used == "4"
	})
}

// breakAGPUTwice has an agent record the same Event twice.
func (s *suite) breakAGPUTwice() {
	s.Helper()
	faults := filepath.Join(s.cluster.Dir, "gpu-faults.yaml")
	for _, state := range []struct{ content, health string }{
		{"- {node: gang-0, gpu: 0, fault: XID, xid: 79}\n", v1.GPUsDegraded}, {"", v1.GPUsHealthy},
		{"- {node: gang-0, gpu: 0, fault: XID, xid: 79}\n", v1.GPUsDegraded},
	} {
		if err := os.WriteFile(faults, []byte(state.content), 0o600); err != nil {
			s.Fatal(err)
		}
		s.waitForNode("gang-0", "health "+state.health, func(node *corev1.Node) bool { return node.Labels[v1.LabelGPUHealth] == state.health })
	}
}

func (s *suite) patchPod(name, patch string) {
	s.Helper()
	if _, err := s.cluster.kube.CoreV1().Pods(s.namespace).Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
}

// deleteTasks deletes tasks and waits until their Pods are gone.
func (s *suite) deleteTasks(names ...string) {
	s.Helper()
	for _, name := range names {
		if err := s.tasks().Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
			s.Fatal(err)
		}
		s.waitUntilGone(name)
		s.waitForPods(name, "they are gone", func(pods []corev1.Pod) bool { return len(pods) == 0 })
	}
}

func (s *suite) waitUntilGone(task string) {
	s.Helper()
	s.eventually("GPUTask "+task+" is gone", func() (bool, string) {
		_, err := s.tasks().Get(s.Context(), task, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprintf("it is there: %v", err)
	})
}
