// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
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
// there is none.
func (r *ConditionReader) Read(ctx context.Context, node string, kind corev1.NodeConditionType) (*corev1.NodeCondition, error) {
	read, err := readNode(ctx, r.client, node)
	if err != nil {
		return nil, err
	}
	for i := range read.Status.Conditions {
		if condition := &read.Status.Conditions[i]; condition.Type == kind {
			return condition, nil
		}
	}
	return nil, nil
}
