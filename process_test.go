// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

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

// After an upgrade the CRD or the rights may be those of the version before. Tasks are
// what matters.
func TestTheControllerWorksWhereMovePlansAreNotServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, rescheduling)
	f.rescheduler.patience = 10 * time.Millisecond
	f.fake.PrependReactor("list", "moveplans", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Group: v1.GroupName, Resource: "moveplans"}, "")
	})
	if !f.startInformers(t.Context()) || !f.ready.Load() {
		t.Fatal("the controller does not begin")
	}
	if missing := f.rescheduler.missing(); !slices.Contains(missing, "moveplans.falldio.com") {
		t.Errorf("missing: %v", missing)
	}
	task := f.store(newTask("train", 1))
	f.mustSync(task)
	if got := f.podNames(); !slices.Equal(got, []string{"train-0"}) && !slices.Equal(got, []string{"train"}) {
		t.Errorf("Pods %v", got)
	}
}
