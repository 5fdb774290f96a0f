// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	driver = "gpu.example.com"
	settle = time.Second
)

var beginning = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// deviceOf is a device as a driver publishes it.
func deviceOf(name string, attributes map[string]string) resourcev1.Device {
	one := resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
	for key, value := range attributes {
		one.Attributes[resourcev1.QualifiedName(key)] = resourcev1.DeviceAttribute{StringValue: &value}
	}
	return one
}

// sliceOf is a ResourceSlice of a node, whose pool has the node's name.
func sliceOf(name, node string, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}, Devices: devices,
	}}
}

// claimOf is a ResourceClaim to which these devices of a node are allocated.
func claimOf(name, node string, devices ...string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	if len(devices) == 0 {
		return claim
	}
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	results := &claim.Status.Allocation.Devices.Results
	for _, one := range devices {
		*results = append(*results, resourcev1.DeviceRequestAllocationResult{Request: "one", Driver: driver, Pool: node, Device: one})
	}
	return claim
}

// manager returns kube-scheduler's own view of these claims.
func manager(t *testing.T, claims ...runtime.Object) fwk.ResourceClaimTracker {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactory(fake.NewClientset(claims...), 0)
	slices, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices()})
	if err != nil {
		t.Fatal(err)
	}
	cached := assumecache.NewAssumeCache(klog.FromContext(ctx), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	manager := dynamicresources.NewDRAManager(ctx, cached, slices, factory)
	factory.Start(ctx.Done())
	t.Cleanup(factory.Shutdown)
	t.Cleanup(cancel)
	err = wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		known, err := manager.ResourceClaims().List()
		return len(known) == len(claims), err
	})
	if err != nil {
		t.Fatal(err)
	}
	return manager.ResourceClaims()
}

// told is what a Tracker has told so far.
type told struct {
	*Tracker
	nodes map[string][]string
	pods  map[types.UID][]string
}

func newTold() *told {
	return &told{Tracker: NewTracker(settle), nodes: map[string][]string{}, pods: map[types.UID][]string{}}
}

// ask has the Tracker tell what has changed.
func (f *told) ask(t *testing.T, claims fwk.ResourceClaimTracker, now time.Time) {
	t.Helper()
	changed, err := f.Held(claims, now)
	if err != nil {
		t.Fatal(err)
	}
	merge(f.nodes, changed.Nodes)
	merge(f.pods, changed.Pods)
}

func merge[K comparable](all, changed map[K][]string) {
	for key, list := range changed {
		if all[key] = list; len(list) == 0 {
			delete(all, key)
		}
	}
}

// expect fails the test unless these GPUs are held.
func expect(t *testing.T, tracker *told, claims fwk.ResourceClaimTracker, now time.Time, want map[string][]string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		tracker.ask(t, claims, now)
		return cmp.Equal(tracker.nodes, want), nil
	})
	if err != nil {
		t.Errorf("held (- want, + got):\n%s", cmp.Diff(want, tracker.nodes))
	}
}

func TestDevicesAreKnownByTheirUUIDs(t *testing.T) {
	t.Parallel()
	other := "other"
	elsewhere := deviceOf("ours", map[string]string{"uuid": "GPU-5"})
	elsewhere.NodeName = &other
	ofMany := sliceOf("of-many", "", elsewhere, deviceOf("nobodys", map[string]string{"uuid": "GPU-6"}))
	ofMany.Spec.NodeName = nil
	tracker := newTold()
	for _, slice := range []*resourcev1.ResourceSlice{
		sliceOf("first", "a", deviceOf("whole", map[string]string{"uuid": "GPU-1"}), deviceOf("qualified", map[string]string{driver + "/uuid": "GPU-2"}),
			deviceOf("part", map[string]string{"uuid": "MIG-1", "parentUUID": "GPU-3"}), deviceOf("part2", map[string]string{"uuid": "MIG-2", "parentUUID": "GPU-3"}),
			deviceOf("nic", map[string]string{"mac": "00:00"}), deviceOf("free", map[string]string{"uuid": "GPU-4"})),
		ofMany,
	} {
		tracker.SliceChanged(nil, slice, beginning)
	}
	claims := manager(t, claimOf("many", "a", "whole", "qualified", "part", "part2", "nic", "unknown"), claimOf("of-many", "", "ours", "nobodys"), claimOf("waits", "a"))
	expect(t, tracker, claims, beginning, map[string][]string{"a": {"GPU-1", "GPU-2", "GPU-3"}, "other": {"GPU-5"}})
}

func TestDevicesOfReplacedSlices(t *testing.T) {
	t.Parallel()
	first, second := sliceOf("first", "a", deviceOf("whole", map[string]string{"uuid": "GPU-1"})), sliceOf("second", "a", deviceOf("whole", map[string]string{"uuid": "GPU-1"}))
	claims := manager(t, claimOf("one", "a", "whole"))
	held := map[string][]string{"a": {"GPU-1"}}
	tracker := newTold()
	for _, step := range []struct{ before, after *resourcev1.ResourceSlice }{{nil, second}, {nil, first}, {first, nil}, {second, nil}, {nil, first}, {first, second}} {
		tracker.SliceChanged(step.before, step.after, beginning)
		expect(t, tracker, claims, beginning, held)
	}
}

// TestAHeldDeviceStaysWhileNobodyPublishesIt: when the kubelet starts, it deletes the slices of
// its node. Pods go on using the devices.
func TestAHeldDeviceStaysWhileNobodyPublishesIt(t *testing.T) {
	t.Parallel()
	slice := sliceOf("s", "a", deviceOf("held", map[string]string{"uuid": "GPU-1"}), deviceOf("free", map[string]string{"uuid": "GPU-2"}))
	tracker := newTold()
	tracker.SliceChanged(nil, slice, beginning)
	claims := manager(t, claimOf("one", "a"), claimOf("other", "a"))
	if err := claims.SignalClaimPendingAllocation("one", claimOf("one", "a", "held")); err != nil {
		t.Fatal(err)
	}
	tracker.SliceChanged(slice, nil, beginning)
	expect(t, tracker, claims, beginning, map[string][]string{"a": {"GPU-1"}})
	claims.MaybeRemoveClaimPendingAllocation("one", true)
	expect(t, tracker, claims, beginning, map[string][]string{})
	if err := claims.SignalClaimPendingAllocation("other", claimOf("other", "a", "held", "free")); err != nil {
		t.Fatal(err)
	}
	expect(t, tracker, claims, beginning, map[string][]string{}) // nobody knows what they were
}

func TestASliceThatPublishesTheSameGPUsChangesNothing(t *testing.T) {
	t.Parallel()
	before := sliceOf("s", "a", deviceOf("whole", map[string]string{"uuid": "GPU-1"}))
	after := before.DeepCopy()
	after.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "unhealthy", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	claims := manager(t)
	tracker := newTold()
	tracker.SliceChanged(nil, before, beginning)
	later := beginning.Add(time.Minute)
	expect(t, tracker, claims, later, map[string][]string{})
	looks := &counted{ResourceClaimTracker: claims}
	tracker.SliceChanged(before, after, later)
	if tracker.ask(t, looks, later); looks.count > 0 {
		t.Error("nothing has changed, and the GPUs are looked at anew")
	}
	if tracker.ask(t, looks, later.Add(lookPeriod)); looks.count == 0 {
		t.Error("kube-scheduler's view may lag for long, and is not looked at again")
	}
}

// counted counts how often all claims are looked at.
type counted struct {
	fwk.ResourceClaimTracker
	count int
}

func (c *counted) List() ([]*resourcev1.ResourceClaim, error) {
	c.count++
	return c.ResourceClaimTracker.List()
}

// TestAllocationsCountBeforeTheAPIServerKnowsThem: in the scheduling cycle of a Pod, its claim
// gets devices, and the API server is told later, beside other cycles.
func TestAllocationsCountBeforeTheAPIServerKnowsThem(t *testing.T) {
	t.Parallel()
	tracker := newTold()
	tracker.SliceChanged(nil, sliceOf("s", "a", deviceOf("whole", map[string]string{"uuid": "GPU-1"})), beginning)
	claims := manager(t, claimOf("one", "a"))
	later := beginning.Add(time.Minute)
	expect(t, tracker, claims, later, map[string][]string{})
	looks := &counted{ResourceClaimTracker: claims}
	if tracker.ask(t, looks, later); looks.count > 0 {
		t.Error("nothing has changed, and the GPUs are looked at anew")
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "device"}}}}
	if err := claims.SignalClaimPendingAllocation("one", claimOf("one", "a", "whole")); err != nil {
		t.Fatal(err)
	}
	tracker.Reserved(pod, later)
	expect(t, tracker, claims, later, map[string][]string{"a": {"GPU-1"}})
	claims.MaybeRemoveClaimPendingAllocation("one", true)
	tracker.Reserved(pod, later)
	expect(t, tracker, claims, later, map[string][]string{})
}

func TestOnlyChangedAllocationsMatter(t *testing.T) {
	t.Parallel()
	allocated, other, unallocated := claimOf("c", "a", "whole"), claimOf("c", "a", "other"), claimOf("c", "a")
	annotated := allocated.DeepCopy()
	annotated.Annotations = map[string]string{"some": "text"}
	tests := map[string]struct {
		before, after *resourcev1.ResourceClaim
		due, released bool
	}{
		"a new claim":                {nil, unallocated, false, false},
		"a claim gets devices":       {unallocated, allocated, true, false},
		"it appears with devices":    {nil, allocated, true, false},
		"it has the same devices":    {allocated, annotated, false, false},
		"it has other devices":       {allocated, other, true, true},
		"it gives its devices back":  {allocated, unallocated, true, true},
		"it is deleted with devices": {allocated, nil, true, true},
		"it is deleted without them": {unallocated, nil, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracker := newTold()
			if released := tracker.ClaimChanged(test.before, test.after, beginning); released != test.released {
				t.Errorf("devices were released: %t, want %t", released, test.released)
			}
			if due := len(tracker.unsettled) > 0; due != test.due {
				t.Errorf("the claim is looked at anew: %t, want %t", due, test.due)
			}
		})
	}
}

func TestPodsThatMayGetDevices(t *testing.T) {
	t.Parallel()
	asking := func(name corev1.ResourceName) *corev1.Pod {
		requests := corev1.ResourceList{name: resource.MustParse("1")}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}}}
	}
	tests := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"one with a claim":                       {&corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "c"}}}}, true},
		"one whose resource a class may provide": {asking(v1.ResourceNVIDIAGPU), true},
		"one with a GPU of ours":                 {asking(v1.ResourceGPU), true},
		"one with CPU":                           {asking(corev1.ResourceCPU), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracker := newTold()
			if got := tracker.Reserved(test.pod, beginning); got != test.want {
				t.Errorf("the Pod may have devices: %t, want %t", got, test.want)
			}
		})
	}
}
