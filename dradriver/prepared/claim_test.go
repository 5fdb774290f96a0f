// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prepared

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const node = "node-1"

// allocatedClaim returns a claim with an allocation.
func allocatedClaim(results ...resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "u-1"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: results}}
	return claim
}

func result(device string, change func(*resourceapi.DeviceRequestAllocationResult)) resourceapi.DeviceRequestAllocationResult {
	r := resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: v1.DRADriver, Pool: node, Device: device}
	if change != nil {
		change(&r)
	}
	return r
}

func percent(amount string) func(*resourceapi.DeviceRequestAllocationResult) {
	return func(r *resourceapi.DeviceRequestAllocationResult) {
		r.ShareID = new(types.UID("share-" + amount))
		r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"percent": resource.MustParse(amount), "memory": resource.MustParse("0")}
	}
}

func TestWhatOfAnAllocationConcernsThisNode(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		results []resourceapi.DeviceRequestAllocationResult
		want    []Device
		problem string
	}{
		"whole GPUs": {
			results: []resourceapi.DeviceRequestAllocationResult{result("gpu-a", percent("100")), result("gpu-b", nil)},
			want:    []Device{{Name: "gpu-a", Request: "gpu", ShareID: new(types.UID("share-100")), Percent: 100}, {Name: "gpu-b", Request: "gpu", Percent: 100}},
		},
		"a share": {
			results: []resourceapi.DeviceRequestAllocationResult{result("gpu-a", percent("46"))},
			want:    []Device{{Name: "gpu-a", Request: "gpu", ShareID: new(types.UID("share-46")), Percent: 46}},
		},
		"access to monitor a GPU": {
			results: []resourceapi.DeviceRequestAllocationResult{result("gpu-a", func(r *resourceapi.DeviceRequestAllocationResult) { r.AdminAccess = new(true) })},
			want:    []Device{{Name: "gpu-a", Request: "gpu", Percent: 100, Admin: true}},
		},
		"devices of other drivers are none of ours": {
			results: []resourceapi.DeviceRequestAllocationResult{
				result("eth1", func(r *resourceapi.DeviceRequestAllocationResult) { r.Driver, r.Pool = "nic.example.com", "network" }), result("gpu-b", nil),
			},
			want: []Device{{Name: "gpu-b", Request: "gpu", Percent: 100}},
		},
		"less than nothing of a GPU": {
			results: []resourceapi.DeviceRequestAllocationResult{result("gpu-a", percent("-50"))},
			problem: "ResourceClaim ns/claim has -50 % of the GPU gpu-a: a share is from 1 to 100 %",
		},
		"more of a GPU than there is": {
			results: []resourceapi.DeviceRequestAllocationResult{result("gpu-a", percent("101"))},
			problem: "ResourceClaim ns/claim has 101 % of the GPU gpu-a: a share is from 1 to 100 %",
		},
		"a GPU of another node": {
			results: []resourceapi.DeviceRequestAllocationResult{result("gpu-a", func(r *resourceapi.DeviceRequestAllocationResult) { r.Pool = "node-2" })},
			problem: "ResourceClaim ns/claim has a GPU of the pool node-2, but this is node node-1",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Of(allocatedClaim(test.results...), node)
			if test.problem != "" {
				if err == nil || err.Error() != test.problem {
					t.Errorf("the problem is %v, want %s", err, test.problem)
				}
				return
			}
			want := Claim{UID: "u-1", Namespace: "ns", Name: "claim", Devices: test.want}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := Of(&resourceapi.ResourceClaim{}, node); err == nil {
		t.Error("a claim that is not allocated has GPUs")
	}
}

// holding returns a claim that has these percentages of GPUs, "GPU-a:46"; "!" is for
// monitoring.
func holding(name string, parts ...string) Claim {
	claim := Claim{UID: types.UID(name), Namespace: "ns", Name: name}
	for _, part := range parts {
		uuid, amount, _ := strings.Cut(strings.TrimPrefix(part, "!"), ":")
		quantity := resource.MustParse(amount)
		claim.Devices = append(claim.Devices, Device{
			Name: strings.ToLower(uuid), UUID: uuid, Request: "gpu", Percent: quantity.Value(), Admin: strings.HasPrefix(part, "!"),
		})
	}
	return claim
}

func TestNoGPUIsPreparedTwice(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		claim  Claim
		others []Claim
		// want are the claims that are in the way.
		want string
	}{
		"nobody has it":                     {holding("new", "GPU-a:100"), []Claim{holding("old", "GPU-b:100")}, ""},
		"another one has it":                {holding("new", "GPU-b:100", "GPU-a:100"), []Claim{holding("old", "GPU-a:100")}, "ns/old"},
		"another one has a share of it":     {holding("new", "GPU-a:100"), []Claim{holding("old", "GPU-a:1")}, "ns/old"},
		"shares that fit":                   {holding("new", "GPU-a:46"), []Claim{holding("old", "GPU-a:46"), holding("older", "GPU-a:8")}, ""},
		"shares that don't fit":             {holding("new", "GPU-a:47"), []Claim{holding("old", "GPU-a:46"), holding("older", "GPU-a:8")}, "ns/old and ns/older"},
		"several shares of one claim":       {holding("new", "GPU-a:30", "GPU-a:30"), []Claim{holding("old", "GPU-a:46")}, "ns/old"},
		"its own earlier allocation":        {holding("same", "GPU-a:100"), []Claim{holding("same", "GPU-a:100")}, ""},
		"access to monitor disturbs nobody": {holding("new", "!GPU-a:100"), []Claim{holding("old", "GPU-a:100")}, ""},
		"nobody disturbs access to monitor": {holding("new", "GPU-a:100"), []Claim{holding("old", "!GPU-a:100")}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conflict := FindConflict(test.claim, test.others)
			if test.want == "" {
				if conflict != nil {
					t.Errorf("%v", conflict)
				}
				return
			}
			want := "GPU GPU-a has been given to ResourceClaim " + test.want + ", which has not been released yet"
			if conflict == nil || conflict.Error() != want {
				t.Errorf("the conflict is %v, want %s", conflict, want)
			}
		})
	}
}

func TestAClaimThatIsAllocatedAnewIsAnotherOne(t *testing.T) {
	t.Parallel()
	share := holding("claim", "GPU-a:46")
	share.Devices[0].ShareID = new(types.UID("one"))
	other := holding("claim", "GPU-a:46")
	other.Devices[0].ShareID = new(types.UID("other"))
	later := share
	later.Devices = []Device{share.Devices[0]}
	later.Devices[0].UUID = "" // it has not been looked for
	if !share.Same(later) || share.Same(other) || share.Same(holding("claim", "GPU-a:46")) || share.Same(holding("claim", "GPU-b:46")) ||
		share.Same(holding("claim")) || !holding("claim", "GPU-a:46").Same(holding("claim", "GPU-a:46")) ||
		holding("claim", "GPU-a:46").Same(holding("claim", "GPU-a:47")) || holding("claim", "GPU-a:46").Same(holding("claim2", "GPU-a:46")) {
		t.Error("allocations are not told apart")
	}
}
