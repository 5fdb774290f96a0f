// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// request is a claim with one request, of capacities if there are any.
type request struct {
	count    int64
	capacity map[resourceapi.QualifiedName]string
	selector string
}

func whole(count int64) request { return request{count: count} }

func shareOf(percent string) request {
	return request{count: 1, capacity: map[resourceapi.QualifiedName]string{Percent: percent}}
}

func memoryOf(memory string) request {
	return request{count: 1, capacity: map[resourceapi.QualifiedName]string{Memory: memory}}
}

func tenPercentWith(memory string) request {
	return request{count: 1, capacity: map[resourceapi.QualifiedName]string{Percent: "10", Memory: memory}}
}

func where(expression string) request { return request{count: 1, selector: expression} }

// TestWhatKubernetesAllocates asks the allocator of kube-scheduler for devices of a node with three
// GPUs of 80 GiB, the second of which is broken.
func TestWhatKubernetesAllocates(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		requests []request
		// want are the indexes of the GPUs with the percentages that each claim gets; nil if
		// the claims can't all have some.
		want []string
	}{
		"a claim that says nothing gets a whole GPU":     {[]request{whole(1)}, []string{"0:100"}},
		"two such claims don't share":                    {[]request{whole(1), whole(1)}, []string{"0:100", "2:100"}},
		"several GPUs are different ones":                {[]request{whole(2)}, []string{"0:100 2:100"}},
		"a broken GPU is given to nobody":                {[]request{whole(3)}, nil},
		"shares share a GPU":                             {[]request{shareOf("46"), shareOf("46")}, []string{"0:46", "0:46"}},
		"shares fill a GPU to the last percent":          {[]request{shareOf("46"), shareOf("54"), shareOf("1")}, []string{"0:46", "0:54", "2:1"}},
		"a share does not fit beside a whole one":        {[]request{whole(1), shareOf("1")}, []string{"0:100", "2:1"}},
		"a whole one does not fit beside a share":        {[]request{shareOf("1"), whole(1)}, []string{"0:1", "2:100"}},
		"a percentage is rounded up":                     {[]request{shareOf("45.5")}, []string{"0:46"}},
		"the least is one percent":                       {[]request{shareOf("0")}, []string{"0:1"}},
		"more than all does not exist":                   {[]request{shareOf("101")}, nil},
		"memory without a percentage takes a whole GPU":  {[]request{memoryOf("10Gi"), shareOf("1")}, []string{"0:100", "2:1"}},
		"more memory than there is":                      {[]request{memoryOf("81Gi")}, nil},
		"memory of shares is counted if it is asked for": {[]request{tenPercentWith("50Gi"), tenPercentWith("50Gi"), tenPercentWith("30Gi")}, []string{"0:10", "2:10", "0:10"}},
		"memory of other shares is not":                  {[]request{tenPercentWith("80Gi"), shareOf("10")}, []string{"0:10", "0:10"}},
		"a GPU by its UUID":                              {[]request{where(`device.attributes["gpu.falldio.com"].uuid == "GPU-00000002-8a59-3b0e-a4b6-0ed8a3b1c7b2"`)}, []string{"2:100"}},
		"a GPU by its memory":                            {[]request{where(`device.capacity["gpu.falldio.com"].memory.compareTo(quantity("80Gi")) >= 0`)}, []string{"0:100"}},
		"a GPU by the version of the driver":             {[]request{where(`device.attributes["gpu.falldio.com"].driverVersion.compareTo(semver("570.0.0")) > 0`)}, []string{"0:100"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, allocate(t, test.requests)); diff != "" {
				t.Errorf("allocation (-want +got):\n%s", diff)
			}
		})
	}
}

const node = "node-1"

// allocate returns for each claim what it gets, sorted, or nil if not all of them get something.
func allocate(t *testing.T, requests []request) []string {
	t.Helper()
	broken := func(d *gpu.Device) { d.Fault = &gpu.Fault{Reason: "ECC"} }
	list := Of(snapshotOf(asItIs, broken, asItIs), optionsOf())
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "0"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: v1.DRADriver, NodeName: new(node), Devices: list,
			Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	allocator, err := structured.NewAllocator(t.Context(), structured.Features{ConsumableCapacity: true, DeviceTaints: true, PrioritizedList: true},
		structured.AllocatedState{
			AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity: structured.NewConsumedCapacityCollection(),
		}, classes{}, []*resourceapi.ResourceSlice{slice}, cel.NewCache(10, cel.Features{EnableConsumableCapacity: true}))
	if err != nil {
		t.Fatal(err)
	}
	claims := make([]*resourceapi.ResourceClaim, len(requests))
	for i := range requests {
		claims[i] = requests[i].claim(i)
	}
	results, err := allocator.Allocate(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, claims)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range results {
		got = append(got, describe(list, results[i].Devices.Results))
	}
	return got
}

// classes has the one class that artifacts/dradriver has for whole GPUs.
type classes struct{}

func (classes) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }

func (classes) Get(name string) (*resourceapi.DeviceClass, error) {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: "device.driver == 'gpu.falldio.com'"},
		}}},
	}, nil
}

func (r request) claim(number int) *resourceapi.ResourceClaim {
	exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: v1.DRADriver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: r.count}
	if r.capacity != nil {
		exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{}}
		for name, amount := range r.capacity {
			exactly.Capacity.Requests[name] = resource.MustParse(amount)
		}
	}
	if r.selector != "" {
		exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: r.selector}}}
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(number), UID: types.UID(strconv.Itoa(number))},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: exactly}}}},
	}
}

// describe returns the indexes of the GPUs with the percentages: "0:46 2:100".
func describe(list []resourceapi.Device, results []resourceapi.DeviceRequestAllocationResult) string {
	var parts []string
	for i := range results {
		place := slices.IndexFunc(list, func(d resourceapi.Device) bool { return d.Name == results[i].Device })
		percent := results[i].ConsumedCapacity[Percent]
		parts = append(parts, fmt.Sprintf("%d:%s", place, percent.String()))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}
