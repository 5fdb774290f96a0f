// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/resourceclaims"
)

// claimsFixture is a fixture with a node whose GPUs a DRA driver gives out, and resource claims.
type claimsFixture struct {
	*fixture
	claims map[string]*resourcev1.ResourceClaim
	// interrupt is called once, when a claim is read next; nil for nothing.
	interrupt func()
}

func newClaimsFixture(t *testing.T) *claimsFixture {
	t.Helper()
	f := &claimsFixture{fixture: newFixture(t), claims: map[string]*resourcev1.ResourceClaim{}}
	f.addNode("node-0", "l", gpusOfDriver)
	f.counter = resourceclaims.NewCounter(resourceclaims.Objects{
		Claim: func(_, name string) (*resourcev1.ResourceClaim, error) {
			if interrupt := f.interrupt; interrupt != nil {
				f.interrupt = nil
				interrupt()
			}
			if claim := f.claims[name]; claim != nil {
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
	return f
}

// member returns a Pod of a gang of its own with a claim for one GPU. Neither exists yet.
func (*claimsFixture) member(i int) (*corev1.Pod, *resourcev1.ResourceClaim) {
	member, claim := claimant(i)
	member.Labels = map[string]string{v1.LabelPodGroup: member.Name, v1.LabelMinAvailable: "1"}
	return member, claim
}

// followed returns the Pods for which it is being followed what their claims select.
func (f *claimsFixture) followed() []types.NamespacedName {
	f.counter.Resolve(f.t.Context())
	f.counter.SliceChanged(driverOf(0, 0), nil)
	return f.counter.Resolve(f.t.Context()) // those for whom that changes something
}

// A claim is in the cache before its event has been handled, and what it selects is found out in the background. A gang that was planned
// meanwhile would have no GPUs in its plan, and would get any.
func TestAGangIsNotPlannedUntilItIsKnownWhatItsClaimsAskFor(t *testing.T) {
	t.Parallel()
	f := newClaimsFixture(t)
	member, claim := f.member(0)

	f.comes(member) // its claim does not exist yet
	if decision := f.decide(member); decision.Waits != claimsMissing {
		t.Errorf("without its claim: %+v", decision)
	}
	f.claims[claim.Name] = claim
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

// What claims ask for is followed beside the events of Pods: an attempt for a gang, or an event of a claim, may find a Pod that is deleted before
// it is recorded. Nothing would ever remove it.
func TestAPodThatIsDeletedWhileItsClaimsAreLookedAtIsForgotten(t *testing.T) {
	t.Parallel()
	tests := map[string]func(f *claimsFixture, member *corev1.Pod, claim *resourcev1.ResourceClaim){
		"by an attempt for its gang": func(f *claimsFixture, member *corev1.Pod, _ *resourcev1.ResourceClaim) {
			attempt := f.registry.Look(member.UID)
			f.goes(member)
			f.waitForClaims(attempt, claimsUnsettled)
		},
		"by an event of a claim": func(f *claimsFixture, member *corev1.Pod, claim *resourcev1.ResourceClaim) {
			f.interrupt = func() { f.goes(member) }
			f.resourceClaimChanged(nil, claim)
		},
	}
	for name, look := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newClaimsFixture(t)
			member, claim := f.member(0)
			other, otherClaim := f.member(1)
			f.claims[otherClaim.Name] = otherClaim
			f.comes(member, other)
			f.resolveSelections(t.Context()) // so it is known what such a claim asks for
			f.claims[claim.Name] = claim

			look(f, member, claim)
			if f.registry.Member(member.UID) != nil {
				t.Error("a Pod that is gone is a member of a gang")
			}
			if followed := f.followed(); len(followed) != 1 || followed[0].Name != other.Name {
				t.Errorf("followed is what the claims of %v select, want only those of %s", followed, other.Name)
			}
		})
	}
}

func TestAPodThatReplacesOneOfItsNameWhileItsClaimsAreLookedAtIsFollowed(t *testing.T) {
	t.Parallel()
	f := newClaimsFixture(t)
	member, claim := f.member(0)
	other, otherClaim := f.member(1)
	f.claims[claim.Name], f.claims[otherClaim.Name] = claim, otherClaim
	f.comes(member, other)
	f.resolveSelections(t.Context())
	next, nextClaim := member.DeepCopy(), claim.DeepCopy()
	next.UID, nextClaim.Name, nextClaim.OwnerReferences[0].UID = "next", "claim-of-next", "next"
	next.Status.ResourceClaimStatuses[0].ResourceClaimName = &nextClaim.Name
	nextClaim.Spec.Devices.Requests[0].Exactly.DeviceClassName = "other"

	f.interrupt = func() {
		f.goes(member)
		f.claims[nextClaim.Name] = nextClaim
		f.comes(next)
	}
	f.resourceClaimChanged(nil, claim)
	if f.registry.Member(member.UID) != nil {
		t.Error("the Pod that is gone is a member of a gang")
	}
	f.resolveSelections(t.Context())
	if f.registry.Member(next.UID) == nil {
		t.Error("the Pod of its name is no member of a gang: it is not found out what its claim asks for")
	}
}

// Claims may ask for no GPUs at all: then nothing about the gang changes when they come.
func TestAGangIsTriedAgainWhenTheClaimsOfItsPodsExist(t *testing.T) {
	t.Parallel()
	f := newClaimsFixture(t)
	member, claim := f.member(0)
	member.Spec.Containers[0].Resources.Requests = pod("with", 1).Spec.Containers[0].Resources.Requests
	f.comes(member)
	if decision := f.decide(member); decision.Waits != claimsMissing {
		t.Fatalf("without its claim: %+v", decision)
	}
	f.clock.Step(shortestPause)
	claim.OwnerReferences = nil // one that a user has made
	f.claims[claim.Name] = claim
	f.resourceClaimChanged(nil, claim)
	if got := f.due(cacheLag); !slices.Equal(got, []string{member.Name}) {
		t.Errorf("due are %v, want the Pod", got)
	}
}
