// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/podwrite"
)

// Patch patches a Pod with a JSON merge patch.
type Patch func(ctx context.Context, pod types.NamespacedName, patch []byte) error

// Corrector corrects the annotations of a node's Pods.
type Corrector struct {
	pods      func() []*corev1.Pod
	patch     Patch
	resources []string

	mu sync.Mutex
	// logged are the Pods whose unknown version has been logged.
	logged map[types.UID]bool
}

// NewCorrector returns a Corrector for some resources, and for MIG slices. pods returns the Pods that are bound
// to this node, from a cache.
func NewCorrector(pods func() []*corev1.Pod, patch Patch, resources []string) *Corrector {
	return &Corrector{pods: pods, patch: patch, resources: resources}
}

// Correct compares the annotations with the kubelet's allocations, and with what is known to
// limit containers to their shares, and corrects those that differ. It returns the number of
// corrections; after an error it should be called again.
func (c *Corrector) Correct(ctx context.Context, allocations []podresources.Allocation, enforcement map[types.NamespacedName]map[string]string) (corrected int, err error) {
	var problems []error
	resources := withMIG(c.resources, allocations)
	actual := podresources.Assignments(allocations, resources)
	for pod, assignment := range actual {
		assignment.Enforcement = enforcement[pod]
		actual[pod] = assignment
	}
	corrections := Corrections(actual, c.pods(), resources)
	c.logUnknownVersions(ctx, corrections)
	for _, correction := range corrections {
		if correction.Annotation == "" {
			continue
		}
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

// withMIG adds the resources of MIG slices that containers have, ours and those of NVIDIA's
// device plugin: which there are depends on how the GPUs are divided.
func withMIG(resources []string, allocations []podresources.Allocation) []string {
	all := slices.Clone(resources)
	for i := range allocations {
		if resource := allocations[i].Resource; podresources.IsMIG(resource) && !slices.Contains(all, resource) {
			all = append(all, resource)
		}
	}
	return all
}

// logUnknownVersions logs, once for each Pod, that its annotation can't be corrected.
func (c *Corrector) logUnknownVersions(ctx context.Context, corrections []Correction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	logged := map[types.UID]bool{}
	for _, correction := range corrections {
		if correction.Annotation != "" {
			continue
		}
		if !c.logged[correction.UID] {
			klog.FromContext(ctx).Error(errVersion, "Can't correct an annotation: it may not match the Pod's devices",
				"pod", correction.Pod, "annotation", inventory.AssignmentAnnotation, "version", correction.Version)
		}
		logged[correction.UID] = true
	}
	c.logged = logged
}

var errVersion = errors.New("the version of the assignment is unknown")

// write patches the annotation. It returns false if the Pod has been deleted meanwhile, or
// replaced by one of the same name.
func (c *Corrector) write(ctx context.Context, correction Correction) (written bool, err error) {
	// The UID makes the API server refuse the patch for any other Pod.
	patch, err := podwrite.Patch{Metadata: podwrite.Metadata{
		UID: correction.UID, Annotations: map[string]string{inventory.AssignmentAnnotation: correction.Annotation},
	}}.Bytes()
	if err != nil {
		return false, fmt.Errorf("correcting %s: %w", correction.Pod, err)
	}
	err = c.patch(ctx, correction.Pod, patch)
	switch {
	case podwrite.IsGone(err), apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("correcting %s: %w", correction.Pod, err)
	}
	logger := klog.FromContext(ctx).WithValues("pod", correction.Pod, "assignment", correction.Annotation)
	if correction.Devices {
		logger.Info("Corrected a Pod's annotation to the devices that the kubelet allocated")
	} else {
		logger.V(2).Info("Stated in a Pod's annotation what limits it to its share")
	}
	return true, nil
}
