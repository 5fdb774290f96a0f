// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/test/chaos/check"
	"falldio.github.io/gpu-controller/test/chaos/schedule"
)

func (i *Injector) patchNode(ctx context.Context, node, patch string) error {
	_, err := i.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (i *Injector) disturbNode(ctx context.Context, fault *schedule.Fault) (action, error) {
	patch := func(patch, mend string) (action, error) {
		return func(ctx context.Context) error { return i.patchNode(ctx, fault.Target, mend) }, i.patchNode(ctx, fault.Target, patch)
	}
	switch fault.Kind {
	case check.FaultPartition: // KWOK renews the leases of nodes with this label
		return patch(`{"metadata": {"labels": {"type": null}}}`, `{"metadata": {"labels": {"type": "kwok"}}}`)
	case check.FaultNotReady:
		return patch(notReady, readyAgain)
	case check.FaultCordon:
		return patch(`{"spec": {"unschedulable": true}}`, `{"spec": {"unschedulable": null}}`)
	case check.FaultDelete:
		return i.deleteNode(ctx, fault.Target)
	case check.FaultReboot:
		return i.reboot(ctx, fault)
	case check.FaultShutdown:
		return i.shutDown(ctx, fault)
	case check.FaultPressure:
		return i.useUpMemory(ctx, fault)
	default:
		return nil, fmt.Errorf("%s is no kind of fault", fault.Kind)
	}
}

// deleteNode deletes a Node, which comes back as it was.
func (i *Injector) deleteNode(ctx context.Context, name string) (action, error) {
	node, err := i.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	again := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: node.Labels, Annotations: node.Annotations},
		Status:     corev1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable},
	}
	mend := func(ctx context.Context) error {
		_, err := i.Kube.CoreV1().Nodes().Create(ctx, again, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	return mend, i.Kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
}

// breakGPU breaks a GPU of a node, by the file that the agent reads. number tells the fault from others.
func (i *Injector) breakGPU(fault *schedule.Fault, number int) (action, error) {
	line := fmt.Sprintf("- {node: %s, gpu: %d, fault: XID, xid: 79}\n", fault.Target, fault.Number)
	mend := func(context.Context) error { return i.writeFaults(number, "") }
	return mend, i.writeFaults(number, line)
}

// writeFaults replaces a line of the file with the faults of GPUs; an empty one is removed.
func (i *Injector) writeFaults(number int, line string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.broken == nil {
		i.broken = map[int]string{}
	}
	i.broken[number] = line
	if line == "" {
		delete(i.broken, number)
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(i.broken)) {
		text.WriteString(i.broken[key])
	}
	path := filepath.Join(i.Cluster.Dir, "gpu-faults.yaml")
	if err := os.WriteFile(path+".new", []byte(text.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
