// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	namespace = "default"
	// sceneLimit is how long the scene may take to be as it should be.
	sceneLimit = 2 * time.Minute
	pollEvery  = 50 * time.Millisecond
)

// task returns a task of some Pods, whose Pods run until the end of the tests.
func task(name, model, gpus string, replicas int32) *v1.GPUTask {
	return &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       v1.GPUTaskSpec{GPU: model, GPUAmount: gpus, Replicas: &replicas},
	}
}

const h100, a100, rtx, t4 = "h100-80gb-hbm3", "a100-40gb", "rtx4090", "t4"

// makeScene fills the cluster as a working day does: what runs, what shares, what waits and for what, a node that is
// drained, a GPU that is broken, two teams with queues, and a plan that waits for somebody to approve it.
func (c *testCluster) makeScene(ctx context.Context) error {
	if err := c.makeQueues(ctx); err != nil {
		return err
	}
	pretrain := task("pretrain", h100, "8", 4)
	pretrain.Spec.Priority = "gpu-high-priority"
	segment := task("segment", h100, "4", 2)
	segment.Spec.Queue = "vision"
	transcribe, filler, caption := task("transcribe", a100, "2", 1), task("filler", a100, "2", 1), task("caption", a100, "2", 1)
	transcribe.Spec.Queue, caption.Spec.Queue = "speech", "speech"
	for _, one := range []*v1.GPUTask{
		pretrain, segment, transcribe, filler, caption, task("notebook-ann", rtx, "0.5", 1), task("notebook-bob", rtx, "0.3", 1), task("tune", rtx, "1", 3),
	} {
		if err := c.createAndWait(ctx, one, v1.PhaseRunning); err != nil {
			return err
		}
	}
	// What it leaves behind are two nodes that are half empty: one move gives a whole one back.
	if err := c.tasks.FalldioV1().GPUTasks(namespace).Delete(ctx, filler.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := c.disturb(ctx); err != nil {
		return err
	}
	wide := task("wide", h100, "8", 4)
	wide.Spec.Topology = &v1.Topology{Level: "leaf", Mode: v1.TopologyRequired}
	for _, one := range []*v1.GPUTask{wide, task("too-big", h100, "16", 1), task("evaluate", a100, "4", 3)} {
		if err := c.createAndWait(ctx, one, v1.PhasePending); err != nil {
			return err
		}
	}
	done := task("prepare", rtx, "1", 1)
	done.Spec.Template = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"simulation.falldio.com/duration": "1s"}}}
	if err := c.createAndWait(ctx, done, v1.PhaseSucceeded); err != nil {
		return err
	}
	if err := c.until(ctx, "the starts of what waits are estimated", func() bool { return c.isEstimated(ctx, wide.Name) && c.isEstimated(ctx, "evaluate") }); err != nil {
		return err
	}
	if err := c.until(ctx, "what fits nowhere says so", func() bool { return c.neverFits(ctx, "too-big") }); err != nil {
		return err
	}
	return c.awaitPlan(ctx)
}

func (c *testCluster) neverFits(ctx context.Context, name string) bool {
	now, err := c.tasks.FalldioV1().GPUTasks(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	condition := meta.FindStatusCondition(now.Status.Conditions, v1.ConditionReconciling)
	return condition != nil && condition.Reason == string(v1.TaskNeverFits)
}

func (c *testCluster) isEstimated(ctx context.Context, name string) bool {
	now, err := c.tasks.FalldioV1().GPUTasks(namespace).Get(ctx, name, metav1.GetOptions{})
	return err == nil && now.Status.EstimatedStart != nil
}

func (c *testCluster) makeQueues(ctx context.Context) error {
	limit := int32(48)
	for _, queue := range []*v1.GPUQueue{
		{ObjectMeta: metav1.ObjectMeta{Name: "research"}, Spec: v1.GPUQueueSpec{Resources: []v1.GPUQueueResource{{GPU: "*", Guaranteed: 24, Limit: &limit}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "vision"}, Spec: v1.GPUQueueSpec{Parent: "research", NamespaceSelector: everywhere(), Resources: []v1.GPUQueueResource{{GPU: "*", Guaranteed: 4}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "speech"}, Spec: v1.GPUQueueSpec{Parent: "research", NamespaceSelector: everywhere(), Resources: []v1.GPUQueueResource{{GPU: "*", Guaranteed: 12}}}},
	} {
		if _, err := c.tasks.FalldioV1().GPUQueues().Create(ctx, queue, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating queue %s: %w", queue.Name, err)
		}
	}
	return nil
}

func everywhere() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}
}

func (c *testCluster) createAndWait(ctx context.Context, task *v1.GPUTask, phase v1.GPUTaskPhase) error {
	if _, err := c.tasks.FalldioV1().GPUTasks(namespace).Create(ctx, task, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		return fmt.Errorf("creating %s: %w", task.Name, err)
	}
	return c.until(ctx, fmt.Sprintf("%s is %s", task.Name, phase), func() bool {
		now, err := c.tasks.FalldioV1().GPUTasks(namespace).Get(ctx, task.Name, metav1.GetOptions{})
		return err == nil && now.Status.Phase == phase && now.Status.Message != ""
	})
}

func (c *testCluster) until(ctx context.Context, what string, holds func() bool) error {
	err := wait.PollUntilContextTimeout(ctx, pollEvery, sceneLimit, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		return fmt.Errorf("not within %v: %s", sceneLimit, what)
	}
	return nil
}

// disturb breaks a GPU and drains a node.
func (c *testCluster) disturb(ctx context.Context) error {
	faults := "- {node: h100-7, gpu: 3, fault: XID, xid: 79}\n"
	if err := os.WriteFile(filepath.Join(c.Dir, "gpu-faults.yaml"), []byte(faults), 0o600); err != nil {
		return err
	}
	patch := []byte(`{"spec":{"unschedulable":true}}`)
	if _, err := c.kube.CoreV1().Nodes().Patch(ctx, "rtx4090-3", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	return c.until(ctx, "the GPU is unhealthy", func() bool {
		node, err := c.kube.CoreV1().Nodes().Get(ctx, "h100-7", metav1.GetOptions{})
		return err == nil && node.Labels[v1.LabelGPUHealth] != "healthy" && node.Labels[v1.LabelGPUHealth] != "Healthy" && node.Labels[v1.LabelGPUHealth] != ""
	})
}

// awaitPlan waits for the plan that makes room for evaluate. Nothing is approved by itself here.
func (c *testCluster) awaitPlan(ctx context.Context) error {
	return c.until(ctx, "there is a plan that waits for approval", func() bool {
		plans, err := c.tasks.FalldioV1().MovePlans().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		for i := range plans.Items {
			if plans.Items[i].Status.Phase == v1.PlanProposed {
				c.plan = plans.Items[i].Name
			}
		}
		return c.plan != ""
	})
}
