// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestCachesThatDoNotFillAreNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fake.PrependReactor("list", "moveplans", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Group: v1.GroupName, Resource: "moveplans"}, "")
	})
	f.startInformers(t.Context())
	if f.WaitForMovePlans(t.Context(), 10*time.Millisecond) || waitForCaches(t.Context(), f.caches, 10*time.Millisecond) {
		t.Error("the caches are filled although MovePlans are not served")
	}
	if missing := unsynced(f.caches); !slices.Contains(missing, "moveplans.falldio.com") {
		t.Errorf("missing: %v", missing)
	}
}
