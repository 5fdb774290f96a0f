// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/podresources"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// Patch changes a Pod with a JSON merge patch.
type Patch func(ctx context.Context, pod types.NamespacedName, patch []byte) error

// Corrector corrects the annotations of a node's Pods.
type Corrector struct {
	pods      func() []*corev1.Pod
	patch     Patch
	resources []string
}

// NewCorrector returns a Corrector for some resources. The function returns the
// Pods that are bound to this node, from memory.
func NewCorrector(pods func() []*corev1.Pod, patch Patch, resources []string) *Corrector {
	return &Corrector{pods: pods, patch: patch, resources: resources}
}

// Correct compares the annotations with what the kubelet says and corrects those
// that differ, without a write if none does. It returns how many it corrected; an
// error says that some could not be, and to try again.
func (c *Corrector) Correct(ctx context.Context, allocations []podresources.Allocation) (corrected int, err error) {
	var problems []error
	truth := podresources.Assignments(allocations, c.resources)
	for _, correction := range Corrections(truth, c.pods(), c.resources) {
		written, err := c.write(ctx, correction)
		if err != nil {
			problems = append(problems, err)
		}
		if written {
			corrected++
		}
	}
	return corrected, errors.Join(problems...)
}

// write returns false if the Pod has gone meanwhile, or has been replaced by one
// of the same name.
func (c *Corrector) write(ctx context.Context, correction Correction) (written bool, err error) {
	value, err := correction.Assignment.String()
	if err != nil {
		return false, fmt.Errorf("correcting %s: %w", correction.Pod, err)
	}
	// The UID makes the API server refuse the patch for any other Pod.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         correction.UID,
		"annotations": map[string]string{inventory.AssignmentAnnotation: value},
	}})
	if err != nil {
		return false, fmt.Errorf("correcting %s: %w", correction.Pod, err)
	}
	err = c.patch(ctx, correction.Pod, patch)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("correcting %s: %w", correction.Pod, err)
	}
	klog.FromContext(ctx).Info("Corrected the devices of a Pod to what the kubelet gave it", "pod", correction.Pod, "assignment", value)
	return true, nil
}
