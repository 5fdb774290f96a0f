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

// readNode returns a Node as it is now, and not as a cache has it. It lists Nodes, because
// that is what the agent may do.
func readNode(ctx context.Context, client rest.Interface, name string) (*corev1.Node, error) {
	nodes := &corev1.NodeList{}
	selector := fields.OneTermEqualSelector("metadata.name", name).String()
	if err := client.Get().Resource(Nodes.Resource).Param("fieldSelector", selector).Do(ctx).Into(nodes); err != nil {
		return nil, fmt.Errorf("reading the Node: %w", err)
	}
	if len(nodes.Items) == 0 {
		return nil, fmt.Errorf("reading the Node: there is no Node %s", name)
	}
	return &nodes.Items[0], nil
}
