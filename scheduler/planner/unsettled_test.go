// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/resourceclaims"
)

// A claim is in the cache before its event has been handled, and what it selects is found out in the background. A gang that was planned
// meanwhile would have no GPUs in its plan, and would get any.
func TestAGangIsNotPlannedUntilItIsKnownWhatItsClaimsAskFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("node-0", "l", gpusOfDriver)
	claims := map[string]*resourcev1.ResourceClaim{}
	f.counter = resourceclaims.NewCounter(resourceclaims.Objects{
		Claim: func(_, name string) (*resourcev1.ResourceClaim, error) {
			if claim := claims[name]; claim != nil {
				return claim, nil
			}
			return nil, apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), name)
		},
		Class: func(name string) (*resourcev1.DeviceClass, error) {
			return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
		},
		Owned: func(types.UID) []*resourcev1.ResourceClaim { return nil },
	})
	f.registry.CountClaims(f.counter.GPUs)
	f.counter.SliceChanged(nil, driverOf(0, 0))
	member, claim := claimant(0)
	member.Labels = map[string]string{v1.LabelPodGroup: "gang", v1.LabelMinAvailable: "1"}

	f.comes(member) // its claim does not exist yet
	if decision := f.decide(member); decision.Waits != claimsMissing {
		t.Errorf("without its claim: %+v", decision)
	}
	claims[claim.Name] = claim
	if decision := f.decide(member); decision.Waits != claimsUnsettled {
		t.Errorf("before it is known what its claim asks for: %+v", decision)
	}
	f.resolveSelections(t.Context())
	if f.registry.ClaimsUnsettled(f.registry.Member(member.UID)) {
		t.Error("what its claim asks for is known, and the gang waits on")
	}
	if decision := f.decide(member); decision.Waits == claimsUnsettled {
		t.Errorf("once it is known: %+v", decision)
	}
}
