// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podwrite confines writes to one Pod: none may reach another one that has taken
// its name since. It makes merge patches and preconditions, and reads the API server's
// refusals of them.
package podwrite

import (
	"encoding/json"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Patch is the body of a merge patch.
type Patch struct {
	Metadata Metadata `json:"metadata"`
	Status   *Status  `json:"status,omitempty"`
}

// Metadata is what a patch changes of a Pod's metadata.
type Metadata struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	// UID is not changed: the API server refuses the patch for a Pod with another one.
	UID types.UID `json:"uid"`
}

// Status is what a patch changes of a Pod's status.
type Status struct {
	// Conditions are merged by their types in a strategic merge patch, and replace
	// all others in any other.
	Conditions []corev1.PodCondition `json:"conditions,omitempty"`
}

// Bytes returns the patch as it is sent.
func (p Patch) Bytes() ([]byte, error) { return json.Marshal(p) }

// IsGone reports whether a patch was refused because its Pod is gone, or another one
// has its name now: to the API server the UID is then a field that can't be changed.
func IsGone(err error) bool {
	if apierrors.IsNotFound(err) {
		return true
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsInvalid(err) || status.ErrStatus.Details == nil {
		return false
	}
	return slices.ContainsFunc(status.ErrStatus.Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == "metadata.uid"
	})
}

// SameVersion confines a deletion to the version of the Pod that was decided on.
func SameVersion(pod *corev1.Pod) *metav1.Preconditions {
	return &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
}
