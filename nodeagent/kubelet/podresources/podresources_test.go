// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"falldio.github.io/gpu-controller/pkg/inventory"
)

const gpu, rdma = "falldio.com/gpu", "falldio.com/rdma"

type fakeKubelet struct {
	podresourcesapi.UnimplementedPodResourcesListerServer
}

func (fakeKubelet) List(context.Context, *podresourcesapi.ListPodResourcesRequest) (*podresourcesapi.ListPodResourcesResponse, error) {
	devices := func(resource string, ids ...string) *podresourcesapi.ContainerDevices {
		return &podresourcesapi.ContainerDevices{ResourceName: resource, DeviceIds: ids}
	}
	return &podresourcesapi.ListPodResourcesResponse{PodResources: []*podresourcesapi.PodResources{
		{Namespace: "z", Name: "a", Containers: []*podresourcesapi.ContainerResources{
			{Name: "main", Devices: []*podresourcesapi.ContainerDevices{devices(gpu, "2"), devices(rdma, "r"), devices(gpu, "1"), devices(gpu, "2")}},
			{Name: "helper"},
			{Name: "claims", DynamicResources: []*podresourcesapi.DynamicResource{{ClaimName: "claim", ClaimResources: []*podresourcesapi.ClaimResource{
				{DriverName: "gpu.nvidia.com", PoolName: "node", DeviceName: "gpu-0", CdiDevices: []*podresourcesapi.CDIDevice{{Name: "k8s.gpu.nvidia.com/device=gpu-0"}}},
				{DriverName: "nic.vendor.com", PoolName: "node", DeviceName: "eth1"},
			}}}},
		}},
		{Namespace: "a", Name: "b", Containers: []*podresourcesapi.ContainerResources{
			{Name: "main", Devices: []*podresourcesapi.ContainerDevices{devices(gpu, "3")}},
		}},
		{Namespace: "a", Name: "a", Containers: []*podresourcesapi.ContainerResources{{Name: "main"}}},
	}}, nil
}

// gpusOf knows one GPU by its name in CDI.
func gpusOf(device *ClaimedDevice) []string {
	if diff := cmp.Diff(&ClaimedDevice{Driver: "gpu.nvidia.com", Pool: "node", Name: "gpu-0", CDI: []string{"k8s.gpu.nvidia.com/device=gpu-0"}}, device); diff != "" {
		return nil
	}
	return []string{"GPU-a"}
}

// TestList begins before there is a kubelet and outlives one.
func TestList(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "podresources") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "kubelet.sock")
	want := []Allocation{
		{Namespace: "a", Pod: "b", Container: "main", Resource: gpu, DeviceIDs: []string{"3"}},
		{Namespace: "z", Pod: "a", Container: "claims", Resource: "gpu.nvidia.com", DeviceIDs: []string{"GPU-a"}},
		{Namespace: "z", Pod: "a", Container: "main", Resource: gpu, DeviceIDs: []string{"1", "2"}},
		{Namespace: "z", Pod: "a", Container: "main", Resource: rdma, DeviceIDs: []string{"r"}},
	}
	for range 2 {
		client, err := NewClient(socket, gpusOf)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.List(t.Context()); err == nil {
			t.Error("List() succeeds without a kubelet")
		}
		_ = client.Close()

		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		podresourcesapi.RegisterPodResourcesListerServer(server, fakeKubelet{})
		go func() { _ = server.Serve(listener) }()
		client, err = NewClient(socket, gpusOf)
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("List() (-want +got):\n%s", diff)
		}
		server.Stop()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAssignments(t *testing.T) {
	t.Parallel()
	allocation := func(pod, container, resource string, ids ...string) Allocation {
		return Allocation{Namespace: "ns", Pod: pod, Container: container, Resource: resource, DeviceIDs: ids}
	}
	tests := map[string]struct {
		allocations []Allocation
		want        map[string]string
	}{
		"a Pod has what its containers have": {
			[]Allocation{allocation("p", "a", gpu, "1", "2"), allocation("p", "b", gpu, "3"), allocation("p", "a", rdma, "r")},
			map[string]string{"ns/p": `{"version":"v1","containers":{"a":{"falldio.com/gpu":["1","2"],"falldio.com/rdma":["r"]},"b":{"falldio.com/gpu":["3"]}}}`},
		},
		"a share is its GPU, once": {
			[]Allocation{allocation("p", "a", gpu, "GPU-x::0", "GPU-x::1", "GPU-x::10"), allocation("p", "b", gpu, "GPU-x::2")},
			map[string]string{"ns/p": `{"version":"v1","containers":{"a":{"falldio.com/gpu":["GPU-x"]},"b":{"falldio.com/gpu":["GPU-x"]}}}`},
		},
		"other resources don't count":  {[]Allocation{allocation("p", "a", "nvidia.com/gpu", "1")}, map[string]string{}},
		"no devices are no assignment": {[]Allocation{allocation("p", "a", gpu)}, map[string]string{}},
		"two Pods of a name are ambiguous": {
			[]Allocation{allocation("p", "a", gpu, "1"), allocation("p", "a", gpu, "2"), allocation("q", "a", gpu, "3")},
			map[string]string{"ns/q": `{"version":"v1","containers":{"a":{"falldio.com/gpu":["3"]}}}`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			for pod, assignment := range Assignments(test.allocations, []string{gpu, rdma}) {
				value, err := assignment.String()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := inventory.ParseAssignment(value); err != nil {
					t.Error(err)
				}
				got[pod.String()] = value
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Assignments() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeviceIDs(t *testing.T) {
	t.Parallel()
	got := DeviceIDs([]Allocation{{Resource: gpu, DeviceIDs: []string{"2", "3"}}, {Resource: rdma, DeviceIDs: []string{"r"}}, {Resource: gpu, DeviceIDs: []string{"1", "2"}}}, gpu)
	if diff := cmp.Diff([]string{"1", "2", "3"}, got); diff != "" {
		t.Errorf("DeviceIDs() (-want +got):\n%s", diff)
	}
}
