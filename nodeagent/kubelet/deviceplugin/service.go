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

// service is what the kubelet calls.
type service struct {
	pluginapi.UnimplementedDevicePluginServer

	resource string
	// counterpart is the resource that hands out the same devices in the other
	// way; empty if there is none.
	counterpart string
	offer       offer
	pool        *Pool
	claims      Claims
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
		if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: s.offer.toKubelet(list)}); err != nil {
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

// Allocate says how the kubelet makes devices visible to a container. A refusal
// makes the Pod fail, with the reason in its status.
func (s *service) Allocate(ctx context.Context, request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	ctx = klog.NewContext(ctx, s.logger)
	list, _ := s.pool.list()
	response := &pluginapi.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		if err := s.check(ctx, list, container.DevicesIds); err != nil {
			s.logger.Error(err, "Refused an allocation", "size", len(container.DevicesIds), "devices", share.GPUs(container.DevicesIds))
			return nil, err
		}
		response.ContainerResponses = append(response.ContainerResponses, s.offer.present(list, list.sorted(container.DevicesIds)))
	}
	for _, container := range request.ContainerRequests {
		s.logger.V(2).Info("Allocated", "size", len(container.DevicesIds), "devices", share.GPUs(container.DevicesIds))
		s.allocations.Add(1)
		s.usage.given(container.DevicesIds)
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
	if err := s.offer.check(ids); err != nil {
		return err
	}
	return s.usage.check(ctx, ids)
}
