// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podwrite

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestIsGone(t *testing.T) {
	kind, resource := schema.GroupKind{Kind: "Pod"}, schema.GroupResource{Resource: "pods"}
	invalid := func(path *field.Path) error {
		return apierrors.NewInvalid(kind, "p", field.ErrorList{field.Invalid(path, "x", "field is immutable")})
	}
	tests := map[string]struct {
		err  error
		want bool
	}{
		"no error":                     {nil, false},
		"the Pod is gone":              {apierrors.NewNotFound(resource, "p"), true},
		"another Pod has its name":     {invalid(field.NewPath("metadata", "uid")), true},
		"something else is invalid":    {invalid(field.NewPath("metadata", "labels")), false},
		"the Pod has changed":          {apierrors.NewConflict(resource, "p", errors.New("modified")), false},
		"the connection has broken":    {errors.New("connection reset by peer"), false},
		"invalid without saying where": {&apierrors.StatusError{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := IsGone(test.err); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestPatchHasOnlyWhatItChanges(t *testing.T) {
	tests := map[string]struct {
		patch Patch
		want  string
	}{
		"annotations": {
			Patch{Metadata: Metadata{UID: "u", Annotations: map[string]string{"a": "b"}}},
			`{"metadata":{"annotations":{"a":"b"},"uid":"u"}}`,
		},
		"labels": {
			Patch{Metadata: Metadata{UID: "u", Labels: map[string]string{"a": "b"}}},
			`{"metadata":{"labels":{"a":"b"},"uid":"u"}}`,
		},
		"a nominated node": {
			Patch{Metadata: Metadata{UID: "u", ResourceVersion: "7"}, Status: &Status{NominatedNodeName: new("n")}},
			`{"metadata":{"uid":"u","resourceVersion":"7"},"status":{"nominatedNodeName":"n"}}`,
		},
		"no nominated node any more": {
			Patch{Metadata: Metadata{UID: "u"}, Status: &Status{NominatedNodeName: new("")}},
			`{"metadata":{"uid":"u"},"status":{"nominatedNodeName":""}}`,
		},
		"a condition": {
			Patch{Metadata: Metadata{UID: "u"}, Status: &Status{Conditions: []corev1.PodCondition{{Type: "T", Status: "True"}}}},
			`{"metadata":{"uid":"u"},"status":{"conditions":[{"type":"T","status":"True","lastProbeTime":null,"lastTransitionTime":null}]}}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := test.patch.Bytes()
			if err != nil || string(got) != test.want {
				t.Errorf("got %s (%v), want %s", got, err, test.want)
			}
		})
	}
}
