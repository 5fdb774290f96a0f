// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"fmt"
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
	// lookPeriod is after how long the allocated devices are looked at again although no event
	// says so: kube-scheduler's own view may have lagged for longer than supposed.
	lookPeriod = 30 * time.Second
	// tries is how often they are looked at when they change at the same moment.
	tries = 100
)

// Tracker knows which devices are GPUs, and when to look anew which of them are allocated. It
// is safe for concurrent use.
type Tracker struct {
	// settle is how long kube-scheduler's own view may lag behind an event.
	settle time.Duration

	mu        sync.Mutex
	published published
	// whole are the GPUs that are published, nil if they have changed since they were asked for.
	whole map[string][]snapshot.PublishedGPU
	// until is when kube-scheduler's view shows all events so far, and looked when it was
	// looked at last.
	until, looked time.Time
}

// NewTracker returns a Tracker. Settle is how long it usually takes until kube-scheduler's own
// view shows what an informer has delivered.
func NewTracker(settle time.Duration) *Tracker {
	return &Tracker{settle: settle, published: newPublished()}
}

// SliceChanged updates the GPUs with those of a ResourceSlice; before or after is nil if it is
// new or gone. It reports whether that has changed any.
func (t *Tracker) SliceChanged(before, after *resourcev1.ResourceSlice, now time.Time) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed, others := t.published.update(before, after)
	if changed {
		t.whole = nil
	}
	if others {
		t.until = now.Add(t.settle)
	}
	return changed
}

// Published returns the whole GPUs that drivers publish, by node, in the order of their UUIDs.
// Changed is false if they are the same as in the last call.
func (t *Tracker) Published() (gpus map[string][]snapshot.PublishedGPU, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if changed = t.whole == nil; changed {
		t.whole = t.published.whole()
	}
	return t.whole, changed
}

// ClaimChanged records that a ResourceClaim has changed; before or after is nil if it is new
// or gone. It reports whether devices were released.
func (t *Tracker) ClaimChanged(before, after *resourcev1.ResourceClaim, now time.Time) (released bool) {
	had, has := allocationOf(before), allocationOf(after)
	if equality.Semantic.DeepEqual(had, has) {
		return false
	}
	t.changed(now)
	return had != nil
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
	t.changed(now)
	return true
}

func (t *Tracker) changed(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = now.Add(t.settle)
}

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

// Held are the GPUs that claims hold, by their UUIDs, sorted.
type Held struct {
	// Nodes has all of them, by node.
	Nodes map[string][]string
	// Pods has those that are held by claims which only one Pod uses, and as a whole, by the
	// Pod.
	Pods map[types.UID][]string
}

// Held returns which GPUs claims hold. Due is false if they need not be looked at: no event
// since the last time may have changed them.
func (t *Tracker) Held(claims fwk.ResourceClaimTracker, now time.Time) (held Held, due bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until.IsZero() && (t.published.none() || now.Before(t.looked.Add(lookPeriod))) {
		return Held{}, false, nil
	}
	held = Held{Nodes: map[string][]string{}, Pods: map[types.UID][]string{}}
	if !t.published.none() {
		allocated, err := gather(claims)
		if err != nil {
			return Held{}, false, err // the next call tries again
		}
		t.add(held.Nodes, allocated)
		if err := t.addPods(held.Pods, claims); err != nil {
			return Held{}, false, err
		}
	}
	t.looked = now
	if now.After(t.until) {
		t.until = time.Time{}
	}
	return held, true, nil
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

// add adds the GPUs behind allocated devices.
func (t *Tracker) add(held map[string][]string, state *structured.AllocatedState) {
	allocated := state.AllocatedDevices.Clone()
	for id := range state.AllocatedSharedDeviceIDs {
		allocated.Insert(id.GetDeviceID())
	}
	t.published.forget(allocated.Has)
	for id := range allocated {
		for _, one := range t.published.of(id) {
			held[one.node] = append(held[one.node], one.UUID)
		}
	}
	for node, uuids := range held { // parts of one GPU name the same
		slices.Sort(uuids)
		held[node] = slices.Compact(uuids)
	}
}

// addPods adds the GPUs of claims that only one Pod uses.
func (t *Tracker) addPods(held map[types.UID][]string, claims fwk.ResourceClaimTracker) error {
	list, err := claims.List()
	if err != nil {
		return fmt.Errorf("resource claims: %w", err)
	}
	for _, claim := range list {
		pod, only := userOf(claim)
		if !only || claim.Status.Allocation == nil {
			continue
		}
		results := claim.Status.Allocation.Devices.Results
		for i := range results {
			gpus := t.published.of(structured.MakeDeviceID(results[i].Driver, results[i].Pool, results[i].Device))
			if len(gpus) == 1 && !gpus[0].part && isWhole(&results[i]) {
				held[pod] = append(held[pod], gpus[0].UUID)
			}
		}
	}
	for _, uuids := range held {
		slices.Sort(uuids)
	}
	return nil
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
