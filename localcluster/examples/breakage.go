// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// AnnotationBreakGPU is the number of an XID error. It breaks a GPU of the example once
// it runs.
const AnnotationBreakGPU = "examples.falldio.com/break-gpu"

// breakage breaks GPUs of running examples.
type breakage struct {
	kube      kubernetes.Interface
	namespace string
	// faults is the file of the simulated GPUs' faults.
	faults string
	broken map[string]bool
}

// brokenGPU is a GPU that was broken.
type brokenGPU struct {
	node  string
	index int
	xid   int
}

// breakFor breaks a GPU of a task if the task wants that and runs. It returns nil if there is
// nothing to break, or no longer.
func (b *breakage) breakFor(ctx context.Context, task *v1.GPUTask) (*brokenGPU, error) {
	text := task.Annotations[AnnotationBreakGPU]
	if text == "" || b.broken[task.Name] || task.Status.Phase != v1.PhaseRunning {
		return nil, nil
	}
	xid, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("example %q: annotation %s: %q is not the number of an XID", task.Name, AnnotationBreakGPU, text)
	}
	gpu, err := b.gpuOf(ctx, task)
	if err != nil || gpu == nil {
		return nil, err
	}
	gpu.xid = xid
	b.broken[task.Name] = true
	return gpu, b.inject(gpu)
}

// gpuOf returns a GPU of a task's first Pod; nil while it is unknown which ones the Pod has.
func (b *breakage) gpuOf(ctx context.Context, task *v1.GPUTask) (*brokenGPU, error) {
	pods, err := b.kube.CoreV1().Pods(b.namespace).List(ctx, metav1.ListOptions{LabelSelector: v1.LabelTask + "=" + task.Name})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		assignment, err := inventory.ParseAssignment(pod.Annotations[inventory.AssignmentAnnotation])
		if err != nil || pod.Spec.NodeName == "" {
			continue
		}
		node, err := b.kube.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if gpu, err := firstOf(node, assignment); gpu != nil || err != nil {
			return gpu, err
		}
	}
	return nil, nil
}

// firstOf returns the first GPU of a node that is assigned.
func firstOf(node *corev1.Node, assignment *inventory.Assignment) (*brokenGPU, error) {
	listed, err := inventory.Parse(node.Annotations[inventory.Annotation])
	if err != nil {
		return nil, err
	}
	for _, resources := range assignment.Containers {
		for i := range listed.GPUs {
			if slices.Contains(resources[string(v1.ResourceGPU)], listed.GPUs[i].UUID) {
				return &brokenGPU{node: node.Name, index: listed.GPUs[i].Index}, nil
			}
		}
	}
	return nil, nil
}

// inject adds the fault to the file, which the node agent reads again when it changes.
func (b *breakage) inject(gpu *brokenGPU) error {
	file, err := os.OpenFile(b.faults, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "- {node: %s, gpu: %d, fault: XID, xid: %d}\n", gpu.node, gpu.index, gpu.xid)
	return errors.Join(err, file.Close())
}
