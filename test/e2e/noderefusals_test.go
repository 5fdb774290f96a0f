// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// addRefusingNode adds a node whose kubelet refuses every Pod that is bound to it, as one does whose
// device plugin is broken.
func (s *suite) addRefusingNode(name string, gpus int) *corev1.Node {
	s.Helper()
	node := s.addNode(name, gpus, func(node *corev1.Node) {
		delete(node.Labels, "type") // by which kwok knows its nodes
		node.Status.Conditions = readiness(corev1.ConditionTrue, 0)
	})
	ctx, stop := context.WithCancel(s.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := s.refusePods(ctx, node.Name); err != nil && ctx.Err() == nil {
				s.Errorf("the kubelet of node %s: %v", node.Name, err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(pollEvery):
			}
		}
	})
	s.Cleanup(func() { stop(); running.Wait() })
	return node
}

// refusePods refuses the Pods of a node, as a kubelet does, and reports that the node is alive.
func (s *suite) refusePods(ctx context.Context, node string) error {
	pods, err := s.cluster.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node + ",status.phase=Pending"})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		patch := fmt.Sprintf(`{"metadata": {"uid": %q}, "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError",
			"message": "Allocate failed due to no healthy devices present, which is unexpected", "startTime": %q}}`,
			pods.Items[i].UID, time.Now().UTC().Format(time.RFC3339))
		one := &pods.Items[i]
		if _, err := s.cluster.kube.CoreV1().Pods(one.Namespace).Patch(ctx, one.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	if len(pods.Items) == 0 {
		return nil
	}
	return s.patchReady(ctx, node, corev1.ConditionTrue, 0)
}

func TestANodeThatRefusesPodsKeepsNobodyFromOthers(t *testing.T) {
	t.Parallel()
	s, others := newSuiteWithController(t), newSuiteWithController(t)
	bad := s.addRefusingNode("bad", 2) // the better one: it is full then
	good := s.addNode("good", 8)
	task := func(name string, replicas int32) *v1.GPUTask {
		task := newTask(name, replicas, "forever")
		task.Spec.GPU = bad.Labels[v1.LabelGPUModel]
		return task
	}
	runsOn := func(s *suite, name string) *v1.GPUTask {
		return s.waitForTask(name, "runs on the good node", func(task *v1.GPUTask) bool {
			return task.Status.Phase == v1.PhaseRunning && len(task.Status.Nodes) == 1 && task.Status.Nodes[0] == good.Name
		})
	}
	s.waitForEvent(s.create(task("first", 2)), "RefusedByNode")
	others.waitForEvent(others.create(task("second", 1)), "RefusedByNode")
	s.eventually("the Node has an Event", func() (bool, string) {
		events, err := s.cluster.kube.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=RefusesPods,involvedObject.name=" + bad.Name})
		return err == nil && len(events.Items) > 0, fmt.Sprint(err)
	})
	others.create(task("third", 1))
	if third := runsOn(others, "third"); third.Status.Refusals != nil || len(third.Status.FailedNodes) > 0 {
		t.Errorf("a task that comes later was bound to the bad node: %+v, %v", third.Status.Refusals, third.Status.FailedNodes)
	}
	for owner, name := range map[*suite]string{s: "first", others: "second"} {
		if nodes := runsOn(owner, name).Status.FailedNodes; len(nodes) != 1 || nodes[0].Name != bad.Name {
			t.Errorf("task %s avoids %v, want node %s", name, nodes, bad.Name)
		}
	}
}
