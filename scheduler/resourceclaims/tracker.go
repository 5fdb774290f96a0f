// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

const (
	// lookPeriod is after how long all claims are looked at again although no event
	// says so: kube-scheduler's own view may have lagged for longer than supposed.
	lookPeriod = 30 * time.Second
	// tries is how often they are looked at when they change at the same moment.
	tries = 100
)

// Tracker knows which devices are GPUs, and which of them are allocated. It is safe for concurrent
// use. What it does for an event depends on the claim or the slice that has changed, not on how many there are.
type Tracker struct {
	// settle is how long kube-scheduler's own view may lag behind an event.
	settle time.Duration

	mu        sync.Mutex
	published published
	holders   holders
	// unsettled are the claims that have changed, and that kube-scheduler's view may not show yet as they are.
	unsettled map[types.NamespacedName]unsettled
	// observed is true once allocations are reported when they are made: then there is no need to look for them. until
	// is when kube-scheduler's view shows all events so far, if they are not reported.
	observed bool
	until    time.Time
	// looked is when all claims were last looked at.
	looked time.Time
	// nodes and pods are those whose GPUs may have changed since they were last told.
	nodes map[string]struct{}
	pods  map[types.UID]struct{}
}

// unsettled is a claim that kube-scheduler's view may not show yet as it is.
type unsettled struct {
	// version is the one that the view is to show; empty if the claim is gone. until is how long to wait for it.
	version string
	until   time.Time
}

// NewTracker returns a Tracker. Settle is how long it usually takes until kube-scheduler's own
// view shows what an informer has delivered.
func NewTracker(settle time.Duration) *Tracker {
	return &Tracker{
		settle: settle, published: newPublished(), holders: newHolders(), unsettled: map[types.NamespacedName]unsettled{},
		nodes: map[string]struct{}{}, pods: map[types.UID]struct{}{},
	}
}

// SliceChanged updates the GPUs with those of a ResourceSlice; before or after is nil if it is
// new or gone. It reports whether that has changed any.
func (t *Tracker) SliceChanged(before, after *resourcev1.ResourceSlice, now time.Time) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, is := gpusOf(before), gpusOf(after)
	if maps.Equal(was, is) {
		return false
	}
	all := slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is)))
	t.touch(all) // what they were so far
	t.published.update(before, was, after, is)
	t.touch(all)
	if !sameGPUs(was, is) {
		t.look(now)
	}
	return true
}

// touch records that devices are held by others than before, or are other GPUs.
func (t *Tracker) touch(devices []structured.DeviceID) {
	for _, id := range devices {
		for _, one := range t.published.of(id) {
			t.nodes[one.node] = struct{}{}
		}
		for key := range t.holders.ofDevice[id] {
			if pod := t.holders.claims[key].pod; pod != "" {
				t.pods[pod] = struct{}{}
			}
		}
	}
}

// look has all claims looked at until kube-scheduler's view shows what has happened, unless allocations are reported.
func (t *Tracker) look(now time.Time) {
	if !t.observed {
		t.until = now.Add(t.settle)
	}
}

// Published returns the whole GPUs that drivers publish, in the order of their UUIDs, on those nodes on which they may
// have changed since the last call; on the first call, the result is not nil.
func (t *Tracker) Published() (changed map[string][]snapshot.PublishedGPU) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.published.takeChanged()
}

// ClaimChanged records that a ResourceClaim has changed; before or after is nil if it is new
// or gone. It reports whether devices were released.
func (t *Tracker) ClaimChanged(before, after *resourcev1.ResourceClaim, now time.Time) (released bool) {
	had, has := allocationOf(before), allocationOf(after)
	same := equality.Semantic.DeepEqual(had, has)
	if same && (has == nil || equality.Semantic.DeepEqual(before.Status.ReservedFor, after.Status.ReservedFor)) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if after == nil {
		t.await(before.Namespace, before.Name, "", now)
	} else {
		t.await(after.Namespace, after.Name, after.ResourceVersion, now)
	}
	t.look(now)
	return had != nil && !same
}

func (t *Tracker) await(namespace, name, version string, now time.Time) {
	t.unsettled[types.NamespacedName{Namespace: namespace, Name: name}] = unsettled{version: version, until: now.Add(t.settle)}
}

func allocationOf(claim *resourcev1.ResourceClaim) *resourcev1.AllocationResult {
	if claim == nil {
		return nil
	}
	return claim.Status.Allocation
}

// Reserved records that devices may have been reserved for a Pod, or released: they are
// allocated before the API server is told. It reports whether the Pod may have any.
func (t *Tracker) Reserved(pod *corev1.Pod, now time.Time) bool {
	if !UsesDevices(pod) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.look(now)
	return true
}

// Allocated records that devices are allocated to a claim, of which the API server is not told yet.
func (t *Tracker) Allocated(claim *resourcev1.ResourceClaim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.observed {
		t.observed = true
		t.hold(pendingKey(""), nil) // what was found by looking
	}
	t.hold(pendingKey(claim.UID), holdingOf(claim, false))
}

// Settled records that what Allocated has recorded of a claim no longer counts: the API server knows it, or the devices
// are released.
func (t *Tracker) Settled(claim types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hold(pendingKey(claim), nil)
}

// Assumed records that kube-scheduler's view of a claim has changed before the informer has told of it.
func (t *Tracker) Assumed(namespace, name string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.await(namespace, name, anyVersion, now)
}

// anyVersion is the version of a claim of which it is not known: no claim has it.
const anyVersion = "any"

// UsesDevices reports whether a Pod may get devices: for its claims, or for a resource that a
// DeviceClass provides.
func UsesDevices(pod *corev1.Pod) bool {
	if len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	for name := range snapshot.Requests(pod) {
		if _, slices := v1.MIGProfileOf(name); !slices && name != v1.ResourceGPUPercent && strings.Contains(string(name), "/") {
			return true
		}
	}
	return false
}

// Held are the GPUs that claims hold, by their UUIDs, sorted, of those nodes and Pods for which they may have changed.
type Held struct {
	// Nodes has all of them, by node.
	Nodes map[string][]string
	// Pods has those that are held by claims which only one Pod uses, and as a whole, by the
	// Pod.
	Pods map[types.UID][]string
}

// Held returns which GPUs claims hold, as far as that may have changed since the last call.
func (t *Tracker) Held(claims fwk.ResourceClaimTracker, now time.Time) (changed Held, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.published.none() && (!t.until.IsZero() || !now.Before(t.looked.Add(lookPeriod))) {
		if err := t.lookAtAll(claims, now); err != nil {
			return Held{}, err // the next call tries again
		}
	} else {
		t.lookAtUnsettled(claims, now)
	}
	t.published.forget(t.holders.holds)
	return t.takeChanged(), nil
}

// lookAtUnsettled looks at the claims that have changed.
func (t *Tracker) lookAtUnsettled(claims fwk.ResourceClaimTracker, now time.Time) {
	for name, one := range t.unsettled {
		var held *holding
		version := ""
		if claim, err := claims.Get(name.Namespace, name.Name); err == nil { // else there is none
			held, version = holdingOf(claim, true), claim.ResourceVersion
		}
		t.hold(claimKey(name.Namespace, name.Name), held)
		if version == one.version || now.After(one.until) {
			delete(t.unsettled, name)
		}
	}
}

// lookAtAll looks at all claims.
func (t *Tracker) lookAtAll(claims fwk.ResourceClaimTracker, now time.Time) error {
	list, err := claims.List()
	if err != nil {
		return fmt.Errorf("resource claims: %w", err)
	}
	known := make(map[string]struct{}, len(list))
	for _, claim := range list {
		key := claimKey(claim.Namespace, claim.Name)
		known[key] = struct{}{}
		t.hold(key, holdingOf(claim, true))
	}
	for key := range t.holders.claims {
		if _, listed := known[key]; !listed && !isPending(key) {
			t.hold(key, nil)
		}
	}
	if !t.observed {
		if err := t.lookForPending(claims); err != nil {
			return err
		}
	}
	t.lookAtUnsettled(claims, now)
	t.looked = now
	if now.After(t.until) {
		t.until = time.Time{}
	}
	return nil
}

// lookForPending finds the devices that are allocated to no claim yet of which the API server has been told.
func (t *Tracker) lookForPending(claims fwk.ResourceClaimTracker) error {
	state, err := gather(claims)
	if err != nil {
		return err
	}
	t.hold(pendingKey(""), nil)
	pending := &holding{}
	add := func(id structured.DeviceID) {
		if !t.holders.holds(id) {
			pending.devices = append(pending.devices, heldDevice{id: id})
		}
	}
	for id := range state.AllocatedDevices {
		add(id)
	}
	for id := range state.AllocatedSharedDeviceIDs {
		add(id.GetDeviceID())
	}
	t.hold(pendingKey(""), pending)
	return nil
}

// hold replaces what a claim holds; nil is for nothing.
func (t *Tracker) hold(key string, next *holding) {
	before := t.holders.claims[key]
	if before.equals(next) {
		return
	}
	t.markChanged(before)
	t.holders.set(key, next)
	t.markChanged(next)
}

// markChanged has takeChanged return what is held where a claim holds something, or has held it.
func (t *Tracker) markChanged(one *holding) {
	if one == nil {
		return
	}
	for i := range one.devices {
		t.touch([]structured.DeviceID{one.devices[i].id})
		t.published.check(one.devices[i].id)
	}
	if one.pod != "" {
		t.pods[one.pod] = struct{}{}
	}
}

// takeChanged returns what is held on the nodes, and by the Pods, for which that may have changed.
func (t *Tracker) takeChanged() Held {
	changed := Held{Nodes: make(map[string][]string, len(t.nodes)), Pods: make(map[types.UID][]string, len(t.pods))}
	for node := range t.nodes {
		changed.Nodes[node] = t.heldOn(node)
	}
	for pod := range t.pods {
		changed.Pods[pod] = t.heldBy(pod)
	}
	clear(t.nodes)
	clear(t.pods)
	return changed
}

// heldOn returns the GPUs of a node that claims hold.
func (t *Tracker) heldOn(node string) (uuids []string) {
	t.published.on(node, func(id structured.DeviceID, one gpu) {
		if t.holders.holds(id) {
			uuids = append(uuids, one.UUID)
		}
	})
	slices.Sort(uuids) // parts of one GPU name the same
	return slices.Compact(uuids)
}

// heldBy returns the GPUs that a Pod alone has as a whole.
func (t *Tracker) heldBy(pod types.UID) (uuids []string) {
	for key := range t.holders.ofPod[pod] {
		for _, one := range t.holders.claims[key].devices {
			if gpus := t.published.of(one.id); one.whole && len(gpus) == 1 && !gpus[0].part {
				uuids = append(uuids, gpus[0].UUID)
			}
		}
	}
	slices.Sort(uuids)
	return uuids
}

// gather returns the devices that are allocated. kube-scheduler gives up when one of them
// changes at the same moment.
func gather(claims fwk.ResourceClaimTracker) (allocated *structured.AllocatedState, err error) {
	for range tries {
		if allocated, err = claims.GatherAllocatedState(); err == nil {
			return allocated, nil
		}
	}
	return nil, fmt.Errorf("devices of resource claims: %w", err)
}

// userOf returns the Pod that uses a claim, and whether there is one and no other user.
func userOf(claim *resourcev1.ResourceClaim) (pod types.UID, only bool) {
	if len(claim.Status.ReservedFor) != 1 {
		return "", false
	}
	user := &claim.Status.ReservedFor[0]
	return user.UID, user.APIGroup == "" && user.Resource == "pods"
}

// isWhole reports whether a claim has a whole device: it can't be shared, or all of it was
// given to the claim.
func isWhole(result *resourcev1.DeviceRequestAllocationResult) bool {
	if result.AdminAccess != nil && *result.AdminAccess {
		return false
	}
	if result.ShareID == nil {
		return true
	}
	for _, name := range (description{driver: result.Driver}).names(capacityPercent) {
		if percent, has := result.ConsumedCapacity[name]; has && percent.CmpInt64(placement.Card) >= 0 {
			return true
		}
	}
	return false
}
