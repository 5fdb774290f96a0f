// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// The cluster of these benchmarks: so many nodes with a ResourceSlice of so many GPUs each, and so many Pods that wait
// with a claim for one GPU.
const (
	drivers      = 10_000
	gpusOfDriver = 8
	claimants    = 20_000
)

// driverOf returns the ResourceSlice of a node. The generation tells versions apart.
func driverOf(node, generation int) *resourcev1.ResourceSlice {
	name := fmt.Sprint("node-", node)
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1, Generation: int64(generation)},
	}}
	for i := range gpusOfDriver {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"type": {StringValue: new("gpu")}, "productName": {StringValue: new("NVIDIA H100")}, "uuid": {StringValue: new(fmt.Sprint("GPU-", node, "-", i))},
			"numaNode": {IntValue: new(int64(generation % 2))},
		}})
	}
	return slice
}

// claimant returns a Pod with a claim for one GPU.
func claimant(i int) (*corev1.Pod, *resourcev1.ResourceClaim) {
	name := fmt.Sprint("pod-", i)
	one := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	one.Spec.SchedulerName, one.Spec.Containers = "gpu-scheduler", []corev1.Container{{Name: "main"}}
	name = "claim-of-" + one.Name
	one.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
	one.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &name}}
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: one.Namespace, Name: name, UID: types.UID(name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: one.Name, UID: one.UID, Controller: new(true)}},
		},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", Count: 1}},
		}}},
	}
	return one, claim
}

// newClaimants returns the Follower of such a cluster, whose events have been handled.
func newClaimants(b *testing.B) *fixture {
	b.Helper()
	f := newFixture(b)
	informers := f.informers
	add := func(indexer cache.Indexer, object any) {
		if err := indexer.Add(object); err != nil {
			b.Fatal(err)
		}
	}
	claims, slices := informers.Resource().V1().ResourceClaims(), informers.Resource().V1().ResourceSlices()
	f.count(Objects{
		Claim: func(namespace, name string) (*resourcev1.ResourceClaim, error) {
			return claims.Lister().ResourceClaims(namespace).Get(name)
		},
		Class: informers.Resource().V1().DeviceClasses().Lister().Get,
	})
	add(informers.Resource().V1().DeviceClasses().Informer().GetIndexer(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].type == "gpu"`}},
		}},
	})
	for i := range drivers {
		slice := driverOf(i, 0)
		add(slices.Informer().GetIndexer(), slice)
		f.sliceChanged(nil, slice)
	}
	for i := range claimants {
		pod, claim := claimant(i)
		add(claims.Informer().GetIndexer(), claim)
		f.comes(pod)
	}
	f.resolveSelections(b.Context())
	if one, _ := claimant(0); f.registry.Member(one.UID) == nil {
		b.Fatal("the Pods ask for no GPUs")
	}
	return f
}

// BenchmarkAResourceSliceChanges is one of 10,000 slices of 8 GPUs that changes while 20,000 Pods wait for GPUs with
// claims.
func BenchmarkAResourceSliceChanges(b *testing.B) {
	f := newClaimants(b)
	indexer, i := f.informers.Resource().V1().ResourceSlices().Informer().GetIndexer(), 0
	for b.Loop() {
		before, after := driverOf(i%drivers, i/drivers), driverOf(i%drivers, i/drivers+1)
		if err := indexer.Update(after); err != nil {
			b.Fatal(err)
		}
		f.sliceChanged(before, after)
		f.resolveSelections(b.Context())
		i++
	}
}
