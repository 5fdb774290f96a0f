// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
)

// unknownVersion is what the kubelet writes if the container runtime does not tell its version.
const unknownVersion = "Unknown"

// ContainerRuntime returns the name and the version of a node's container runtime, such as
// "containerd://2.1.4", as the kubelet has written them to the Node. A kubelet that is started
// while the runtime is down writes "containerd://Unknown" at first, which is an error here.
func ContainerRuntime(ctx context.Context, config *rest.Config, node string) (string, error) {
	client, err := core(config, newScheme())
	if err != nil {
		return "", err
	}
	read, err := readNode(ctx, client, node)
	if err != nil {
		return "", err
	}
	runtime := read.Status.NodeInfo.ContainerRuntimeVersion
	if runtime == "" || strings.HasSuffix(runtime, "://"+unknownVersion) {
		return "", fmt.Errorf("the kubelet has not written its container runtime to Node %s yet, only %q", node, runtime)
	}
	return runtime, nil
}
