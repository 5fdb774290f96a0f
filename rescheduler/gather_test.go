// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

func TestPlanningReadsPodsFromTheCachesOnly(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t)
	f.fake.PrependReactor("create", "moveplans", func(clienttesting.Action) (bool, runtime.Object, error) { return true, f.plan, nil })
	f.must(f.propose(t.Context()))
	f.must(f.repair(t.Context()))
	for _, action := range f.kube.Actions() {
		if action.GetVerb() == "list" {
			t.Errorf("%s were listed", action.GetResource().Resource)
		}
	}
}
