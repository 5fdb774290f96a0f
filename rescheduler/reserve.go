// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// reserve writes the reservations that plans need, and removes those that no plan needs.
func (r *Rescheduler) reserve(ctx context.Context, objects *clusterview.Objects) error {
	changes, err := moveplan.Reservations(objects, r.deps.Namespace, r.options.MoveTimeout)
	if err != nil {
		return err
	}
	errs := make([]error, 0, len(changes))
	for i := range changes {
		errs = append(errs, r.annotate(ctx, &changes[i]))
	}
	return errors.Join(errs...)
}

// annotate writes the reservations of one node if the node is unchanged.
func (r *Rescheduler) annotate(ctx context.Context, change *moveplan.NodeChange) error {
	value := &change.Value
	if change.Value == "" {
		value = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": change.Node.ResourceVersion,
		"annotations":     map[string]*string{reservation.Annotation: value},
	}})
	if err != nil {
		return fmt.Errorf("reservations of node %s: %w", change.Node.Name, err)
	}
	_, err = r.deps.Kube.CoreV1().Nodes().Patch(ctx, change.Node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the reservations of node %s: %w", change.Node.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Wrote reservations", "node", change.Node.Name, "reservations", change.Value)
	return nil
}
