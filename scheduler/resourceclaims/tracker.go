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
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
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
// new or gone.
func (t *Tracker) SliceChanged(before, after *resourcev1.ResourceSlice, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.published.update(before, after) {
		t.until = now.Add(t.settle)
	}
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
	if !usesDevices(pod) {
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

// usesDevices reports whether a Pod may get devices: for its claims, or for a resource that a
// DeviceClass provides.
func usesDevices(pod *corev1.Pod) bool {
	if len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	for name := range snapshot.Requests(pod) {
		if _, slices := v1.MIGProfileOf(name); !slices && name != v1.ResourceGPU && name != v1.ResourceGPUPercent && strings.Contains(string(name), "/") {
			return true
		}
	}
	return false
}

// Held returns the UUIDs of the GPUs that claims hold, sorted, by node. Due is false if they
// need not be looked at: no event since the last time may have changed them.
func (t *Tracker) Held(claims fwk.ResourceClaimTracker, now time.Time) (held map[string][]string, due bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until.IsZero() && (t.published.none() || now.Before(t.looked.Add(lookPeriod))) {
		return nil, false, nil
	}
	held = map[string][]string{}
	if !t.published.none() {
		allocated, err := gather(claims)
		if err != nil {
			return nil, false, err // the next call tries again
		}
		t.add(held, allocated)
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
			held[one.node] = append(held[one.node], one.uuid)
		}
	}
	for node, uuids := range held { // parts of one GPU name the same
		slices.Sort(uuids)
		held[node] = slices.Compact(uuids)
	}
}
