// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// service implements the calls of the kubelet.
type service struct {
	pluginapi.UnimplementedDevicePluginServer

	resource string
	// counterpart is the resource that allocates the same devices in the other way, whole
	// or in shares; empty if there is none.
	counterpart string
	allocator   allocator
	pool        *Pool
	tracker     AllocationTracker
	usage       *Usage
	allocated   func()
	logger      klog.Logger
	streams     *streams

	allocations atomic.Int64
}

var _ pluginapi.DevicePluginServer = &service{}

func options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}

// GetDevicePluginOptions returns which optional calls are implemented.
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
		if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: s.allocator.advertise(list)}); err != nil {
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

// Allocate returns how to make devices visible to a container. An error fails the Pod,
// with the reason in its status.
func (s *service) Allocate(ctx context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	ctx = klog.NewContext(ctx, s.logger)
	list, _ := s.pool.list()
	response := &pluginapi.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		if err := s.check(ctx, list, container.DevicesIds); err != nil {
			s.logger.Error(err, "Refused an allocation", "size", len(container.DevicesIds), "devices", share.GPUs(container.DevicesIds))
			return nil, err
		}
		response.ContainerResponses = append(response.ContainerResponses, s.allocator.response(list, list.sorted(container.DevicesIds)))
	}
	for _, container := range request.ContainerRequests {
		s.logger.V(2).Info("Allocated", "size", len(container.DevicesIds), "devices", share.GPUs(container.DevicesIds))
		s.allocations.Add(1)
		s.usage.record(container.DevicesIds)
		if s.tracker != nil {
			s.tracker.Allocated(s.resource, container.DevicesIds)
		}
	}
	if s.allocated != nil {
		s.allocated()
	}
	return response, nil
}

// check returns why devices can't be allocated, or nil. The kubelet knows which are
// healthy, but its view may be stale.
func (s *service) check(ctx context.Context, list *listing, ids []string) error {
	for _, id := range ids {
		device, known := list.device(id)
		if !known {
			return status.Errorf(codes.NotFound, "%s has no device %q", s.resource, id)
		}
		if !device.Healthy {
			return status.Errorf(codes.FailedPrecondition, "device %q of %s is unhealthy", id, s.resource)
		}
	}
	if err := s.allocator.check(ids); err != nil {
		return err
	}
	return s.usage.check(ctx, ids, s.allocator.gpuOf())
}
