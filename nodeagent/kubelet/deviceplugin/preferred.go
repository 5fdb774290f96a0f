// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"

	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// GetPreferredAllocation answers from memory, since the kubelet calls it while it admits a
// Pod; it waits for a moment only for a Pod that is not in our cache yet. It never fails,
// since the kubelet would reject the Pod; an empty answer leaves the choice to the kubelet.
func (s *service) GetPreferredAllocation(ctx context.Context, requests *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	response := &pluginapi.PreferredAllocationResponse{}
	for _, container := range requests.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{
			DeviceIDs: s.prefer(ctx, request{
				available: container.AvailableDeviceIDs, must: container.MustIncludeDeviceIDs, size: int(container.AllocationSize),
			}),
		})
	}
	return response, nil
}

// prefer returns the devices that the scheduler has chosen for the requester, or else the
// best devices that are not assigned to others.
func (s *service) prefer(ctx context.Context, r request) []string {
	logger := s.logger.WithValues("size", r.size)
	ctx = klog.NewContext(ctx, logger)
	list, _ := s.pool.list()
	r = list.usable(&r)
	var pending []PendingAllocation
	if s.tracker != nil {
		s.tracker.Await(ctx, s.resource, r.size)
		pending = s.tracker.Pending(s.resource)
	}
	requester, fits := requesterOf(pending, &r)
	if fits {
		logger.V(2).Info("Prefer the devices chosen for a Pod", "pod", requester.Pod, "container", requester.Container, "devices", requester.IDs)
		return r.take(list, r.of(requester.IDs))
	}
	if s.tracker != nil && s.counterpart != "" {
		pending = append(pending, s.tracker.Pending(s.counterpart)...)
	}
	chosen, err := s.choose(ctx, list, &r, assignedToOthers(pending, requester))
	if err != nil {
		logger.Info("No devices are preferred", "available", share.GPUs(r.available), "must", r.must, "err", err)
		return nil
	}
	logger.V(2).Info("Prefer the devices that fit best", "devices", share.GPUs(chosen))
	return chosen
}

// choose queries the kubelet for the devices in use only if the cached usage is stale, or
// leaves nothing to choose.
func (s *service) choose(ctx context.Context, list *listing, r *request, assigned *assignedDevices) ([]string, error) {
	used, fresh := s.usage.cached()
	if !fresh {
		used, _ = s.usage.query(ctx) // Allocate refuses what nobody can say
	}
	chosen, err := s.allocator.choose(list, r, assigned, used)
	if err != nil || used.conflict(chosen, s.allocator.gpuOf()) == nil {
		return chosen, err
	}
	used, _ = s.usage.query(ctx)
	return s.allocator.choose(list, r, assigned, used)
}

// usable returns the request without unhealthy devices: the kubelet may not know yet that
// a device is unhealthy, and Allocate would refuse it. They stay if too few others are
// left, or if the kubelet insists on them.
func (l *listing) usable(r *request) request {
	return r.without(func(id string) bool {
		device, known := l.device(id)
		return !known || !device.Healthy
	})
}

// requesterOf returns the pending allocation that the kubelet's request is for, nil if it is
// not known, and whether the devices chosen for it are available. It is the oldest one of
// the size, unless the request has devices that must be allocated: those identify the Pod,
// since an init container of it had them.
func requesterOf(pending []PendingAllocation, r *request) (oldest *PendingAllocation, fits bool) {
	for i := range pending {
		p := &pending[i]
		if p.Size != r.size {
			continue
		}
		if oldest == nil {
			oldest = p
		}
		if p.fits(r) {
			return p, true
		}
		if len(r.must) == 0 {
			break
		}
	}
	return oldest, false
}
