// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func node(managed ...metav1.ManagedFieldsEntry) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "node-1", Labels: map[string]string{"falldio.com/gpu": "h100"}, ManagedFields: managed,
	}}
}

func TestWithoutManagedFields(t *testing.T) {
	t.Parallel()
	got, err := WithoutManagedFields(node(metav1.ManagedFieldsEntry{Manager: "kubelet"}))
	if diff := cmp.Diff(node(), got); diff != "" || err != nil {
		t.Errorf("error %v, Node (-want +got):\n%s", err, diff)
	}
	// Values other than objects that informers pass on must survive.
	if got, err := WithoutManagedFields("tombstone"); got != "tombstone" || err != nil {
		t.Errorf("something else became %v, error %v", got, err)
	}
}

func TestLastKnown(t *testing.T) {
	t.Parallel()
	want := node()
	for name, object := range map[string]any{
		"the object itself":                     want,
		"the last state of a deletion not seen": cache.DeletedFinalStateUnknown{Key: "node-1", Obj: want},
	} {
		if got := LastKnown(object); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
