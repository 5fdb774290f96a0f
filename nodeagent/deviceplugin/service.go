// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/pkg/allocation"
)

// service is what the kubelet calls.
type service struct {
	pluginapi.UnimplementedDevicePluginServer

	resource  string
	pool      *Pool
	claims    Claims
	envVar    string
	cdiKind   string
	allocated func()
	logger    klog.Logger
	streams   *streams

	allocations atomic.Int64
}

var _ pluginapi.DevicePluginServer = &service{}

func options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}

// GetDevicePluginOptions says what the kubelet may call.
func (s *service) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return options(), nil
}

// PreStartContainer does nothing: a device needs no preparation.
func (s *service) PreStartContainer(context.Context, *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	return &pluginapi.PreStartContainerResponse{}, nil
}

// ListAndWatch sends the devices now and whenever they change.
func (s *service) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	registration := s.streams.begin()
	defer s.streams.end(registration)
	for {
		list, changed := s.pool.list()
		if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: list.toKubelet()}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		case <-s.streams.stopping:
			return nil
		}
	}
}

func (l *listing) toKubelet() []*pluginapi.Device {
	devices := make([]*pluginapi.Device, len(l.devices))
	for place, device := range l.devices {
		devices[place] = &pluginapi.Device{ID: device.ID, Health: pluginapi.Unhealthy}
		if device.Healthy {
			devices[place].Health = pluginapi.Healthy
		}
		if device.NUMANode != allocation.Unknown {
			devices[place].Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(device.NUMANode)}}}
		}
	}
	return devices
}

// Allocate says how the kubelet makes devices visible to a container.
func (s *service) Allocate(_ context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	list, _ := s.pool.list()
	response := &pluginapi.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		if err := s.check(list, container.DevicesIds); err != nil {
			s.logger.Error(err, "Refused an allocation", "devices", container.DevicesIds)
			return nil, err
		}
		response.ContainerResponses = append(response.ContainerResponses, s.present(list.sorted(container.DevicesIds)))
	}
	for _, container := range request.ContainerRequests {
		s.logger.V(2).Info("Allocated", "devices", container.DevicesIds)
		s.allocations.Add(1)
		if s.claims != nil {
			s.claims.Taken(s.resource, container.DevicesIds)
		}
	}
	if s.allocated != nil {
		s.allocated()
	}
	return response, nil
}

// check refuses devices that can't be used. The kubelet knows which are healthy,
// but may learn it too late.
func (s *service) check(list *listing, ids []string) error {
	for _, id := range ids {
		place, known := list.places[id]
		if !known {
			return status.Errorf(codes.NotFound, "%s has no device %q", s.resource, id)
		}
		if !list.devices[place].Healthy {
			return status.Errorf(codes.FailedPrecondition, "device %q of %s is unhealthy", id, s.resource)
		}
	}
	return nil
}

func (s *service) present(ids []string) *pluginapi.ContainerAllocateResponse {
	response := &pluginapi.ContainerAllocateResponse{}
	if s.envVar != "" {
		response.Envs = map[string]string{s.envVar: strings.Join(ids, ",")}
	}
	if s.cdiKind != "" {
		for _, id := range ids {
			response.CdiDevices = append(response.CdiDevices, &pluginapi.CDIDevice{Name: s.cdiKind + "=" + id})
		}
	}
	return response
}
