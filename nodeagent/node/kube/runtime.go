// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
)

// ContainerRuntime returns the name and the version of a node's container runtime, such as
// "containerd://2.1.4", as the kubelet has written them to the Node.
func ContainerRuntime(ctx context.Context, config *rest.Config, node string) (string, error) {
	client, err := core(config, newScheme())
	if err != nil {
		return "", err
	}
	nodes := &corev1.NodeList{}
	err = client.Get().Resource(Nodes.Resource).Param("fieldSelector", fields.OneTermEqualSelector("metadata.name", node).String()).Do(ctx).Into(nodes)
	if err != nil {
		return "", fmt.Errorf("reading the container runtime of the Node: %w", err)
	}
	if len(nodes.Items) == 0 {
		return "", fmt.Errorf("reading the container runtime of the Node: there is no Node %s", node)
	}
	return nodes.Items[0].Status.NodeInfo.ContainerRuntimeVersion, nil
}
