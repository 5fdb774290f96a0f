// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	// listTimeout bounds a call: the kubelet answers from memory.
	listTimeout = 10 * time.Second
	// maxMessage is the limit of the kubelet's own client.
	maxMessage = 16 << 20
	// reconnectDelay bounds the backoff between attempts to reconnect; gRPC's default is
	// two minutes.
	reconnectDelay = 5 * time.Second
)

// Client is a client of the kubelet. It connects when it is first used, and reconnects
// after the kubelet was down.
type Client struct {
	conn      *grpc.ClientConn
	api       podresourcesapi.PodResourcesListerClient
	translate Translate
}

var _ Lister = &Client{}

// NewClient returns a client for the kubelet's socket. translate says which GPUs the devices
// of DRA drivers are; without it they are left out.
func NewClient(socket string, translate Translate) (*Client, error) {
	if translate == nil {
		translate = func(*ClaimedDevice) []string { return nil }
	}
	delays := backoff.DefaultConfig
	delays.MaxDelay = reconnectDelay
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: delays, MinConnectTimeout: reconnectDelay}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("pod-resources client: %w", err)
	}
	return &Client{conn: conn, api: podresourcesapi.NewPodResourcesListerClient(conn), translate: translate}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// List implements Lister. The result is sorted by namespace, Pod, container and
// resource.
func (c *Client) List(ctx context.Context) ([]Allocation, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	response, err := c.api.List(ctx, &podresourcesapi.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking the kubelet for the devices in use: %w", err)
	}
	var allocations []Allocation
	for _, pod := range response.PodResources {
		for _, container := range pod.Containers {
			for resource, ids := range c.devicesOf(container) {
				allocations = append(allocations, Allocation{
					Namespace: pod.Namespace, Pod: pod.Name, Container: container.Name,
					Resource: resource, DeviceIDs: ids,
				})
			}
		}
	}
	slices.SortStableFunc(allocations, func(a, b Allocation) int {
		return cmp.Or(
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
			cmp.Compare(a.Container, b.Container), cmp.Compare(a.Resource, b.Resource),
			slices.Compare(a.DeviceIDs, b.DeviceIDs),
		)
	})
	return allocations, nil
}

// devicesOf returns a container's devices by resource or DRA driver. The kubelet returns an
// entry for each device, and one for each NUMA node of a device that has several.
func (c *Client) devicesOf(container *podresourcesapi.ContainerResources) map[string][]string {
	devices := map[string][]string{}
	for _, entry := range container.Devices {
		devices[entry.ResourceName] = append(devices[entry.ResourceName], entry.DeviceIds...)
	}
	for _, claim := range container.DynamicResources {
		for _, claimed := range claim.ClaimResources {
			if ids := c.translate(claimedDevice(claimed)); len(ids) > 0 {
				devices[claimed.DriverName] = append(devices[claimed.DriverName], ids...)
			}
		}
	}
	for resource, ids := range devices {
		slices.Sort(ids)
		devices[resource] = slices.Compact(ids)
	}
	return devices
}

func claimedDevice(claimed *podresourcesapi.ClaimResource) *ClaimedDevice {
	device := &ClaimedDevice{Driver: claimed.DriverName, Pool: claimed.PoolName, Name: claimed.DeviceName}
	for _, one := range claimed.CdiDevices {
		device.CDI = append(device.CDI, one.Name)
	}
	return device
}
