// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"

	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// GetPreferredAllocation answers from memory: the kubelet asks while it admits a
// Pod. Only for a Pod that we have not heard of it waits a moment. It never fails,
// since the kubelet would refuse the Pod; an empty answer leaves the choice to the
// kubelet.
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

// prefer takes the devices that the scheduler has chosen for the container that
// asks, or else the best devices that are promised to nobody.
func (s *service) prefer(ctx context.Context, r request) []string {
	logger := s.logger.WithValues("size", r.size)
	ctx = klog.NewContext(ctx, logger)
	list, _ := s.pool.list()
	r = list.usable(&r)
	var claims []Claim
	if s.claims != nil {
		s.claims.Await(ctx, s.resource, r.size)
		claims = s.claims.Pending(s.resource)
	}
	asking, fits := asker(claims, &r)
	if fits {
		logger.V(2).Info("Prefer what was chosen for a Pod", "pod", asking.Pod, "container", asking.Container, "devices", asking.IDs)
		return r.take(list, r.of(asking.IDs))
	}
	if s.claims != nil && s.counterpart != "" {
		claims = append(claims, s.claims.Pending(s.counterpart)...)
	}
	chosen, err := s.choose(ctx, list, &r, promisedToOthers(claims, asking))
	if err != nil {
		logger.Info("No devices are preferred", "available", share.GPUs(r.available), "must", r.must, "err", err)
		return nil
	}
	logger.V(2).Info("Prefer the devices that fit best", "devices", share.GPUs(chosen))
	return chosen
}

// choose asks the kubelet what is in use only if nobody knows, or if what is known
// leaves nothing: that may be out of date.
func (s *service) choose(ctx context.Context, list *listing, r *request, promised *promises) ([]string, error) {
	used, lately := s.usage.known()
	if !lately {
		used = s.usage.ask(ctx)
	}
	chosen, err := s.offer.choose(list, r, promised, used)
	if err != nil || used.conflict(chosen) == nil {
		return chosen, err
	}
	return s.offer.choose(list, r, promised, s.usage.ask(ctx))
}

// usable returns the request with the devices alone that may be used. The kubelet
// may not have heard yet that a device is ill, and Allocate would refuse it. If
// too few are left, or the kubelet insists, it is the kubelet's choice.
func (l *listing) usable(r *request) request {
	return r.without(func(id string) bool {
		device, known := l.device(id)
		return !known || !device.Healthy
	})
}

// asker returns the claim for which the kubelet asks, nil if it is not known, and
// whether the kubelet can be given what was chosen for it. It is the oldest one of
// the size. But devices that must be in the answer say more: the kubelet has given
// them to an init container of the same Pod.
func asker(claims []Claim, r *request) (oldest *Claim, fits bool) {
	for i := range claims {
		claim := &claims[i]
		if claim.Size != r.size {
			continue
		}
		if oldest == nil {
			oldest = claim
		}
		if claim.fits(r) {
			return claim, true
		}
		if len(r.must) == 0 {
			break
		}
	}
	return oldest, false
}
