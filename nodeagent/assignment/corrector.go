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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/podresources"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// fieldManager names the agent as the owner of what it writes.
const fieldManager = "nodeagent"

// Corrector corrects the annotations of a node's Pods.
type Corrector struct {
	lister    podresources.Lister
	pods      func() []*corev1.Pod
	client    kubernetes.Interface
	resources []string
}

// NewCorrector returns a Corrector for some resources. The function returns the
// Pods that are bound to this node, from memory.
func NewCorrector(lister podresources.Lister, pods func() []*corev1.Pod, client kubernetes.Interface, resources []string) *Corrector {
	return &Corrector{lister: lister, pods: pods, client: client, resources: resources}
}

// Correct asks the kubelet for the truth and corrects the annotations that
// differ, without a write if none does. It returns how many it corrected; an
// error says that some could not be, and to try again.
func (c *Corrector) Correct(ctx context.Context) (corrected int, err error) {
	allocations, err := c.lister.List(ctx)
	if err != nil {
		return 0, err
	}
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
	_, err = c.client.CoreV1().Pods(correction.Pod.Namespace).Patch(ctx, correction.Pod.Name,
		types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("correcting %s: %w", correction.Pod, err)
	}
	klog.FromContext(ctx).Info("Corrected the devices of a Pod to what the kubelet gave it", "pod", correction.Pod, "assignment", value)
	return true, nil
}
