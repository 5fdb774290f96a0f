// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// fixture is a Follower of a cluster with a node whose GPUs a DRA driver gives out, and resource claims.
type fixture struct {
	*Follower
	t         testing.TB
	registry  *gangs.Registry
	informers informers.SharedInformerFactory
	claims    map[string]*resourcev1.ResourceClaim
	// interrupt is called once, when a claim is read next; nil for nothing.
	interrupt func()
	// woken is how often gangs were woken.
	woken int
}

// leading is the term of a process that may act.
type leading struct{}

func (leading) MayAct() bool { return true }
func (leading) Leads() bool  { return true }

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	f := &fixture{
		t: tb, registry: gangs.NewRegistry(gangs.Timing{}), claims: map[string]*resourcev1.ResourceClaim{},
		informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0),
	}
	f.registry.Serve("gpu-scheduler")
	f.registry.Start()
	f.Follower = NewFollower(Sources{
		Informers: f.informers, Clock: clocktesting.NewFakePassiveClock(beginning), Logger: ktesting.NewLogger(tb, ktesting.NewConfig()),
		Term: leading{}, Registry: f.registry, Do: func(gangs.Actions) {}, Forget: func(pod *corev1.Pod) { f.registry.Forget(pod.UID) },
		Activate: func([]*corev1.Pod) {}, Wake: func() { f.woken++ }, WakeAll: func() {},
	}, 0)
	return f
}

func newClaimsFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.count(Objects{
		Claim: func(_, name string) (*resourcev1.ResourceClaim, error) {
			if interrupt := f.interrupt; interrupt != nil {
				f.interrupt = nil
				interrupt()
			}
			return find(f.claims, name)
		},
		Class: func(name string) (*resourcev1.DeviceClass, error) {
			return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
		},
		Owned: func(types.UID) []*resourcev1.ResourceClaim { return nil },
	})
	f.counter.SliceChanged(nil, driverOf(0, 0))
	return f
}

// comes delivers Pods.
func (f *fixture) comes(pods ...*corev1.Pod) {
	f.t.Helper()
	for _, pod := range pods {
		if err := f.informers.Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
			f.t.Fatal(err)
		}
		f.PodChanged(pod)
		f.registry.Observe(pod)
	}
}

// goes deletes a Pod.
func (f *fixture) goes(pod *corev1.Pod) {
	f.t.Helper()
	if err := f.informers.Core().V1().Pods().Informer().GetIndexer().Delete(pod); err != nil {
		f.t.Fatal(err)
	}
	f.PodGone(pod)
	f.registry.Forget(pod.UID)
}

// member returns a Pod of a gang of its own with a claim for one GPU. Neither exists yet.
func (*fixture) member(i int) (*corev1.Pod, *resourcev1.ResourceClaim) {
	member, claim := claimant(i)
	member.Labels = map[string]string{v1.LabelPodGroup: member.Name, v1.LabelMinAvailable: "1"}
	return member, claim
}

// followed returns the Pods for which it is being followed what their claims select.
func (f *fixture) followed() []types.NamespacedName {
	f.counter.Resolve(f.t.Context())
	f.counter.SliceChanged(driverOf(0, 0), nil)
	return f.counter.Resolve(f.t.Context()) // those for whom that changes something
}

// A claim is in the cache before its event has been handled, and what it selects is found out in the background. A gang
// that was planned meanwhile would have no GPUs in its plan, and would get any.
func TestAGangIsNotPlannedUntilItIsKnownWhatItsClaimsAskFor(t *testing.T) {
	t.Parallel()
	f := newClaimsFixture(t)
	member, claim := f.member(0)

	f.comes(member) // its claim does not exist yet
	unprepared := func() string {
		attempt := f.registry.Look(member.UID)
		why := f.Unprepared(attempt)
		if why != "" {
			f.Await(attempt)
		}
		return why
	}
	if why := unprepared(); why != claimsMissing {
		t.Errorf("without its claim: %q", why)
	}
	f.claims[claim.Name] = claim
	if why := unprepared(); why != claimsUnsettled {
		t.Errorf("before it is known what its claim asks for: %q", why)
	}
	f.resolveSelections(t.Context())
	if f.registry.ClaimsUnsettled(f.registry.Member(member.UID)) {
		t.Error("what its claim asks for is known, and the gang waits on")
	}
	if why := unprepared(); why != "" {
		t.Errorf("once it is known: %q", why)
	}
}

// What claims ask for is followed beside the events of Pods: an attempt for a gang, or an event of a claim, may find a
// Pod that is deleted before it is recorded. Nothing would ever remove it.
func TestAPodThatIsDeletedWhileItsClaimsAreLookedAtIsForgotten(t *testing.T) {
	t.Parallel()
	tests := map[string]func(f *fixture, member *corev1.Pod, claim *resourcev1.ResourceClaim){
		"by an attempt for its gang": func(f *fixture, member *corev1.Pod, _ *resourcev1.ResourceClaim) {
			attempt := f.registry.Look(member.UID)
			f.goes(member)
			f.Await(attempt)
		},
		"by an event of a claim": func(f *fixture, member *corev1.Pod, claim *resourcev1.ResourceClaim) {
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
func TestAGangIsWokenWhenTheClaimsOfItsPodsExist(t *testing.T) {
	t.Parallel()
	f := newClaimsFixture(t)
	member, claim := f.member(0)
	member.Spec.Containers[0].Resources.Requests = corev1.ResourceList{v1.ResourceGPU: resource.MustParse("1")}
	f.comes(member)
	attempt := f.registry.Look(member.UID)
	if why := f.Unprepared(attempt); why != claimsMissing {
		t.Fatalf("without its claim: %q", why)
	}
	f.Await(attempt)
	claim.OwnerReferences = nil // one that a user has made
	f.claims[claim.Name] = claim
	f.resourceClaimChanged(nil, claim)
	if f.woken != 1 {
		t.Errorf("it was woken %d times, want once", f.woken)
	}
}
