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

// ConditionReader reads conditions of Nodes, which the metadata of Nodes do not have.
type ConditionReader struct{ client rest.Interface }

// NewConditionReader returns a ConditionReader.
func NewConditionReader(config *rest.Config) (*ConditionReader, error) {
	client, err := core(config, newScheme())
	return &ConditionReader{client}, err
}

// Read returns a Node's condition of a type, as it is now and not as a cache has it; nil if
// there is none. It lists Nodes, because that is what the agent may do.
func (r *ConditionReader) Read(ctx context.Context, node string, kind corev1.NodeConditionType) (*corev1.NodeCondition, error) {
	nodes := &corev1.NodeList{}
	selector := fields.OneTermEqualSelector("metadata.name", node).String()
	if err := r.client.Get().Resource(Nodes.Resource).Param("fieldSelector", selector).Do(ctx).Into(nodes); err != nil {
		return nil, fmt.Errorf("reading the conditions of the Node: %w", err)
	}
	if len(nodes.Items) == 0 {
		return nil, fmt.Errorf("reading the conditions of the Node: there is no Node %s", node)
	}
	for i := range nodes.Items[0].Status.Conditions {
		if condition := &nodes.Items[0].Status.Conditions[i]; condition.Type == kind {
			return condition, nil
		}
	}
	return nil, nil
}
