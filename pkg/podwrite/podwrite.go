// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podwrite restricts writes to one particular Pod: none may hit a later Pod of the
// same name. It builds merge patches and preconditions, and recognizes when the API server
// rejects them.
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

// Metadata is the part of a Pod's metadata that a patch changes.
type Metadata struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	// UID is not changed: the API server rejects the patch for a Pod with another one.
	UID types.UID `json:"uid"`
	// ResourceVersion restricts the patch to this version of the Pod, if it is set.
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Status is the part of a Pod's status that a patch changes.
type Status struct {
	// Conditions are merged by type in a strategic merge patch, and replace all others in
	// any other patch.
	Conditions []corev1.PodCondition `json:"conditions,omitempty"`
	// NominatedNodeName is not changed if it is nil, and removed if it is empty.
	NominatedNodeName *string `json:"nominatedNodeName,omitempty"`
}

// Bytes returns the encoded patch.
func (p Patch) Bytes() ([]byte, error) { return json.Marshal(p) }

// IsGone reports whether a patch was rejected because its Pod is gone, or another one has
// its name now: the API server then reports the UID as an immutable field.
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

// SameVersion restricts a deletion to the version of the Pod that the decision was based
// on.
func SameVersion(pod *corev1.Pod) *metav1.Preconditions {
	return &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
}
