// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"

	"k8s.io/client-go/rest"
)

// ContainerRuntime returns the name and the version of a node's container runtime, such as
// "containerd://2.1.4", as the kubelet has written them to the Node.
func ContainerRuntime(ctx context.Context, config *rest.Config, node string) (string, error) {
	client, err := core(config, newScheme())
	if err != nil {
		return "", err
	}
	read, err := readNode(ctx, client, node)
	if err != nil {
		return "", err
	}
	return read.Status.NodeInfo.ContainerRuntimeVersion, nil
}
