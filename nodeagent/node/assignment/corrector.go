// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/podwrite"
)

// Patch changes a Pod with a JSON merge patch.
type Patch func(ctx context.Context, pod types.NamespacedName, patch []byte) error

// Corrector corrects the annotations of a node's Pods.
type Corrector struct {
	pods      func() []*corev1.Pod
	patch     Patch
	resources []string

	mu sync.Mutex
	// told are the Pods whose annotations are known to be foreign.
	told map[types.UID]bool
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
	corrections := Corrections(truth, c.pods(), c.resources)
	c.tellOfForeign(ctx, corrections)
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

// tellOfForeign logs once for each Pod that its annotation can't be corrected.
func (c *Corrector) tellOfForeign(ctx context.Context, corrections []Correction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := map[types.UID]bool{}
	for _, correction := range corrections {
		if correction.Annotation != "" {
			continue
		}
		if !c.told[correction.UID] {
			klog.FromContext(ctx).Error(errVersion, "Leaving an annotation alone: it may not say which devices the Pod has",
				"pod", correction.Pod, "annotation", inventory.AssignmentAnnotation, "version", correction.Version)
		}
		told[correction.UID] = true
	}
	c.told = told
}

var errVersion = errors.New("the version of the assignment is unknown")

// write returns false if the Pod has gone meanwhile, or has been replaced by one
// of the same name.
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
	klog.FromContext(ctx).Info("Corrected the devices of a Pod to what the kubelet gave it", "pod", correction.Pod, "assignment", correction.Annotation)
	return true, nil
}
