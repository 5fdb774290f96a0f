// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	"falldio.github.io/gpu-controller/nodeagent/node/kube"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// heldGPUs knows which GPUs of simulated nodes Pods have that run. No kubelet says it there, but the Pods do.
type heldGPUs struct{ pods cache.SharedIndexInformer }

// byGPU is the name of the index of Pods by the UUIDs of their GPUs.
const byGPU = "gpu"

func newHeldGPUs(client metadata.Interface) (*heldGPUs, error) {
	pods, err := kube.NewInformer(client, kube.Pods, "status.phase=Running")
	if err != nil {
		return nil, fmt.Errorf("watching the Pods of simulated nodes: %w", err)
	}
	return &heldGPUs{pods}, pods.AddIndexers(cache.Indexers{byGPU: gpusOf})
}

// gpusOf returns the UUIDs of the GPUs that a Pod says that it has.
func gpusOf(object any) ([]string, error) {
	pod, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, nil
	}
	assignment, err := inventory.ParseAssignment(pod.Annotations[inventory.AssignmentAnnotation])
	if err != nil {
		return nil, nil //nolint:nilerr // it says nothing that can be understood
	}
	var uuids []string
	for _, resources := range assignment.Containers {
		for _, ids := range resources {
			for _, id := range ids {
				uuid, _ := share.Of(id)
				uuids = append(uuids, uuid)
			}
		}
	}
	return uuids, nil
}

// run watches the Pods until ctx ends.
func (h *heldGPUs) run(ctx context.Context) { h.pods.RunWithContext(ctx) }

// holds reports whether a Pod has a GPU. It has not before the Pods are known.
func (h *heldGPUs) holds(uuid string) bool {
	pods, err := h.pods.GetIndexer().IndexKeys(byGPU, uuid)
	return err == nil && len(pods) > 0
}
