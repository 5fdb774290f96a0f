// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"slices"

	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/pkg/allocation"
)

// GetPreferredAllocation answers from memory: the kubelet asks while it admits a
// Pod. It never fails, since the kubelet would refuse the Pod; an empty answer
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

// prefer takes the devices that the scheduler has chosen for a container of this
// size, the one that waits longest, or else the best devices that are promised
// to nobody.
func (s *service) prefer(ctx context.Context, available, must []string, size int) []string {
	logger := s.logger.WithValues("size", size)
	list, _ := s.pool.list()
	var claims []Claim
	if s.claims != nil {
		claims = s.claims.Pending(klog.NewContext(ctx, logger), s.resource)
	}
	availableSet, mustSet := toSet(available), toSet(must)
	for i := range claims {
		if claims[i].matches(availableSet, mustSet, size) {
			logger.V(2).Info("Prefer what was chosen for a Pod", "pod", claims[i].Pod, "container", claims[i].Container, "devices", claims[i].IDs)
			return list.sorted(claims[i].IDs)
		}
	}
	var promised []string
	for i := range claims {
		promised = append(promised, claims[i].IDs...)
	}
	chosen, err := list.topology.Choose(allocation.Request{Available: available, Must: must, Avoid: promised, Size: size})
	if err != nil {
		logger.Info("No devices are preferred", "available", slices.Sorted(slices.Values(available)), "must", must, "err", err)
		return nil
	}
	logger.V(2).Info("Prefer the devices that fit best", "devices", chosen)
	return chosen
}

func toSet(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}
