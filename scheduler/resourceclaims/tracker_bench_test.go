// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"fmt"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// The cluster of these benchmarks: so many nodes with a ResourceSlice of so many GPUs each, and so many claims that
// hold one.
const (
	manyNodes  = 10_000
	gpusOfNode = 8
	manyClaims = 20_000
)

func manySlices() []*resourcev1.ResourceSlice {
	list := make([]*resourcev1.ResourceSlice, manyNodes)
	for i := range list {
		name := fmt.Sprint("node-", i)
		list[i] = sliceOf(name, name)
		for j := range gpusOfNode {
			list[i].Spec.Devices = append(list[i].Spec.Devices, deviceOf(fmt.Sprint("gpu-", j), map[string]string{"uuid": fmt.Sprint("GPU-", i, "-", j), "productName": "NVIDIA H100"}))
		}
	}
	return list
}

// usedClaim is a claim that holds a GPU, and that one Pod uses.
func usedClaim(i int) *resourcev1.ResourceClaim {
	claim := claimOf(fmt.Sprint("claim-", i), fmt.Sprint("node-", i%manyNodes), fmt.Sprint("gpu-", i/manyNodes%gpusOfNode))
	claim.ResourceVersion = "1"
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", UID: types.UID(fmt.Sprint("pod-", i))}}
	return claim
}

// BenchmarkAClaimChanges is one of 20,000 claims that gives its GPU back, or gets one, on 10,000 nodes with 8 GPUs
// each, and what the next scheduling cycle does to know it.
func BenchmarkAClaimChanges(b *testing.B) {
	ctx := b.Context()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	cache := assumecache.NewAssumeCache(klog.Background(), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	claims := dynamicresources.NewDRAManager(ctx, cache, nil, factory).ResourceClaims()
	tracker := NewTracker(settle)
	tracker.observed = true
	for _, slice := range manySlices() {
		tracker.SliceChanged(nil, slice, beginning)
	}
	for i := range manyClaims {
		assumecache.AddTestObject(cache, usedClaim(i))
		tracker.ClaimChanged(nil, usedClaim(i), beginning)
	}
	if held, err := tracker.Held(claims, beginning); err != nil || len(held.Pods) != manyClaims {
		b.Fatalf("%d Pods have GPUs, error %v", len(held.Pods), err)
	}
	for i := 0; b.Loop(); i++ {
		claim := usedClaim(i / 2 % manyClaims)
		if i%2 == 0 {
			assumecache.DeleteTestObject(cache, claim)
			tracker.ClaimChanged(claim, nil, beginning)
		} else {
			assumecache.AddTestObject(cache, claim)
			tracker.ClaimChanged(nil, claim, beginning)
		}
		if held, err := tracker.Held(claims, beginning); err != nil || len(held.Nodes) != 1 {
			b.Fatalf("GPUs of %d nodes have changed, error %v", len(held.Nodes), err)
		}
	}
}

// BenchmarkASliceIsPublished is one of 10,000 slices that changes, and what the next scheduling cycle does to know it.
func BenchmarkASliceIsPublished(b *testing.B) {
	tracker, list := NewTracker(settle), manySlices()
	for _, slice := range list {
		tracker.SliceChanged(nil, slice, beginning)
	}
	tracker.Published()
	for i := 0; b.Loop(); i++ {
		before := list[i%manyNodes]
		after := before.DeepCopy()
		after.Spec.Devices[0].Attributes["productName"] = resourcev1.DeviceAttribute{StringValue: new(fmt.Sprint("NVIDIA H", i))}
		list[i%manyNodes] = after
		tracker.SliceChanged(before, after, beginning)
		if len(tracker.Published()) == 0 {
			b.Fatal("nothing has changed")
		}
	}
}

// BenchmarkOnlyThePlannedGPU is what an allocator is shown for a Pod with a place on one of 10,000 nodes.
func BenchmarkOnlyThePlannedGPU(b *testing.B) {
	list, none := manySlices(), func(structured.DeviceID) bool { return false }
	for b.Loop() {
		shown := Only(OnNode(list, "node-7"), Places{"node-7": sets.New("GPU-7-0")}, none)
		if len(shown) != 1 || len(shown[0].Spec.Devices) != 1 {
			b.Fatal("it is shown others")
		}
	}
}

// BenchmarkWithoutKeptGPUs is what an allocator is shown while GPUs of one of 10,000 nodes are kept for others.
func BenchmarkWithoutKeptGPUs(b *testing.B) {
	list, none := manySlices(), func(structured.DeviceID) bool { return false }
	for b.Loop() {
		if shown := Without(list, Places{"node-7": sets.New("GPU-7-0")}, none); len(shown[7].Spec.Devices) != gpusOfNode-1 {
			b.Fatal("it is shown one that is kept")
		}
	}
}
