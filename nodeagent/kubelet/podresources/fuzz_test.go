// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// FuzzContainer has the kubelet report any devices of a container. What it has is listed once, in
// order, and is an assignment that the scheduler can read.
func FuzzContainer(f *testing.F) {
	f.Add([]byte(`{"name":"main","devices":[{"resourceName":"falldio.com/gpu","deviceIds":["b","a","b"]}],"dynamicResources":[{"claimResources":[{"driverName":"gpu.nvidia.com","cdiDevices":[{"name":"k8s.gpu.nvidia.com/device=gpu-0"}]}]}]}`), []byte(nil))
	f.Add([]byte(`{"name":"","devices":[{"resourceName":"falldio.com/gpu","deviceIds":["GPU-a::1","GPU-a::2","::"]},{},{"resourceName":"falldio.com/gpu"}]}`), []byte(nil))
	client := &Client{translate: func(device *ClaimedDevice) []string { return append(slices.Clone(device.CDI), device.Name) }}
	f.Fuzz(func(t *testing.T, text []byte, edits []byte) {
		text = fuzzjson.Edit(text, edits)
		container := &podresourcesapi.ContainerResources{}
		if protojson.Unmarshal(text, container) != nil {
			return
		}
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(text), func() {
			var allocations []Allocation
			for resource, ids := range client.devicesOf(container) {
				if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
					t.Errorf("it has %q of %s", ids, resource)
				}
				allocations = append(allocations, Allocation{Namespace: "ns", Pod: "p", Container: container.Name, Resource: resource, DeviceIDs: ids})
			}
			for _, assignment := range Assignments(allocations, []string{gpu, rdma}) {
				value, err := assignment.String()
				if err != nil {
					t.Fatal(err)
				}
				read, err := inventory.ParseAssignment(value)
				if err != nil {
					t.Errorf("%s can't be read: %v", value, err)
				} else if names := read.Containers; len(names) != 1 && !strings.Contains(value, "\\") {
					t.Errorf("%s has %d containers", value, len(names))
				}
			}
		})
	})
}
