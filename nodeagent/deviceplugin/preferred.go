// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"slices"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/pkg/allocation"
)

// GetPreferredAllocation answers from memory: the kubelet asks while it admits a
// Pod. Only for a Pod that we have not heard of it waits a moment. It never fails, since the kubelet would refuse the Pod; an empty answer
// leaves the choice to the kubelet.
func (s *service) GetPreferredAllocation(ctx context.Context, request *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	response := &pluginapi.PreferredAllocationResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{
			DeviceIDs: s.prefer(ctx, container.AvailableDeviceIDs, container.MustIncludeDeviceIDs, int(container.AllocationSize)),
		})
	}
	return response, nil
}

// prefer takes the devices that the scheduler has chosen for the container that
// asks, or else the best devices that are promised to nobody.
func (s *service) prefer(ctx context.Context, available, must []string, size int) []string {
	logger := s.logger.WithValues("size", size)
	list, _ := s.pool.list()
	available = list.usable(available, must, size)
	var claims []Claim
	if s.claims != nil {
		s.claims.Await(ctx, s.resource, size)
		claims = s.claims.Pending(s.resource)
	}
	asking, fits := asker(claims, available, must, size)
	if fits {
		logger.V(2).Info("Prefer what was chosen for a Pod", "pod", asking.Pod, "container", asking.Container, "devices", asking.IDs)
		return list.sorted(asking.IDs)
	}
	chosen, err := list.topology.Choose(allocation.Request{Available: available, Must: must, Avoid: promisedToOthers(claims, asking), Size: size})
	if err != nil {
		logger.Info("No devices are preferred", "available", slices.Sorted(slices.Values(available)), "must", must, "err", err)
		return nil
	}
	logger.V(2).Info("Prefer the devices that fit best", "devices", chosen)
	return chosen
}

// usable returns the available devices that may be used. The kubelet may not have
// heard yet that a device is ill, and Allocate would refuse it. If too few are
// left, or the kubelet insists, it is the kubelet's choice.
func (l *listing) usable(available, must []string, size int) []string {
	usable := make([]string, 0, len(available))
	for _, id := range available {
		place, known := l.places[id]
		if known && l.devices[place].Healthy || slices.Contains(must, id) {
			usable = append(usable, id)
		}
	}
	if len(usable) < size {
		return available
	}
	return usable
}

// asker returns the claim for which the kubelet asks, nil if it is not known, and
// whether the kubelet can be given what was chosen for it. It is the oldest one of
// the size. But devices that must be in the answer say more: the kubelet has given
// them to an init container of the same Pod.
func asker(claims []Claim, available, must []string, size int) (oldest *Claim, fits bool) {
	var set map[string]bool
	for i := range claims {
		claim := &claims[i]
		if claim.Size != size {
			continue
		}
		if oldest == nil {
			oldest = claim
		}
		if set == nil && len(claim.IDs) > 0 {
			set = toSet(available)
		}
		if claim.fits(set, must) {
			return claim, true
		}
		if len(must) == 0 {
			break
		}
	}
	return oldest, false
}

// promisedToOthers returns the devices that are chosen for other containers than
// the one that asks. What an init container gets, the others of its Pod get, too.
func promisedToOthers(claims []Claim, asking *Claim) []string {
	var promised []string
	for i := range claims {
		own := asking != nil && claims[i].UID == asking.UID && (asking.Lends || claims[i].Container == asking.Container)
		if !own {
			promised = append(promised, claims[i].IDs...)
		}
	}
	return promised
}

func toSet(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}
