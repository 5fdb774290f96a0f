// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/leadership"
)

// noClaims is kube-scheduler's view of a cluster without resource claims.
type noClaims struct{ fwk.SharedDRAManager }

func (noClaims) ResourceClaims() fwk.ResourceClaimTracker { return nil }

func TestAGangIsNotPlannedUntilTheClaimsOfItsPodsExist(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "l", 1)
	f.handle.claims = noClaims{}
	f.begins(leadership.Always())
	if _, err := f.devices.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	member := pod("train", 1, in("train", 1, 0))
	member.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
	f.comes(member)
	if decision := f.decide(member); decision.Waits != "waits until the resource claims of its Pods exist" {
		t.Errorf("without its claim: %+v", decision)
	}
}
