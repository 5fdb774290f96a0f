// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// Sharing configures how shares of GPUs are allocated.
type Sharing struct {
	// MPS limits how much of its GPU a container can use; nil to set no limits.
	MPS *MPS
	// LimitsMemory reports whether NVIDIA's hook limits the GPU memory of the container's
	// control group, as variables tell it; nil if it does not.
	LimitsMemory func() bool
}

// sharing allocates shares of GPUs. All shares of a container are of one GPU.
type sharing struct {
	visibility
	mps          *MPS
	limitsMemory func() bool
}

var _ allocator = &sharing{}

func (s *sharing) advertise(list *listing) []*pluginapi.Device {
	devices := make([]*pluginapi.Device, 0, share.PerGPU*len(list.devices))
	for i := range list.devices {
		gpu := &list.devices[i]
		near := topology(gpu) // the same for all of its shares
		for number := range share.PerGPU {
			devices = append(devices, &pluginapi.Device{ID: share.ID(gpu.ID, number), Health: health(gpu), Topology: near})
		}
	}
	return devices
}

// candidate is a GPU that has as many shares left as are requested.
type candidate struct {
	// ids are its available shares.
	ids []string
	// used is 1 if the GPU is in use as another resource, assigned is 1 if so much of it is
	// assigned to others that this container would take some of it from them.
	used, assigned int
	// left is how many shares would then be free.
	left int
}

// choose takes the GPU with the fewest shares left afterwards (best fit), so that others
// stay whole. A GPU in use as another resource is the last resort: Allocate refuses it, but with a
// reason that people understand.
func (s *sharing) choose(list *listing, r *request, assigned *assignedDevices, used inUse) ([]string, error) {
	available := map[string][]string{}
	for _, id := range r.available {
		gpu := share.GPU(id)
		available[gpu] = append(available[gpu], id)
	}
	must := share.GPUs(r.must)
	var candidates []candidate
	for i := range list.devices {
		gpu := list.devices[i].ID
		ids := available[gpu]
		if len(ids) < r.size || len(must) > 0 && !slices.Equal(must, []string{gpu}) {
			continue
		}
		left := len(ids) - r.size
		candidates = append(candidates, candidate{
			ids: ids, left: left, used: toInt(used.claimed(gpu, false)),
			assigned: toInt(assigned.whole[gpu] || left < assigned.shares[gpu]),
		})
	}
	if len(candidates) == 0 {
		return nil, fmt.Errorf("no GPU has %d %% left", r.size)
	}
	best := slices.MinFunc(candidates, func(a, b candidate) int {
		return cmp.Or(a.used-b.used, a.assigned-b.assigned, a.left-b.left)
	})
	return r.take(list, best.ids), nil
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s *sharing) gpuOf() map[string]string { return nil }

// check refuses shares of several GPUs, which the kubelet combines if no GPU has enough
// of them, or if its topology manager insists on a NUMA node.
func (s *sharing) check(ids []string) error {
	gpus := share.GPUs(ids)
	if len(gpus) == 1 {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "the kubelet chose %d %% of %d GPUs together (%s), but a container gets a share of one GPU: no GPU has as much left",
		len(ids), len(gpus), strings.Join(gpus, ", "))
}

func (s *sharing) response(list *listing, ids []string) *pluginapi.ContainerAllocateResponse {
	gpus, percent := share.GPUs(ids), len(ids)
	response := s.expose(gpus)
	if response.Envs == nil {
		response.Envs = map[string]string{}
	}
	response.Envs[share.Variable] = strconv.Itoa(percent)
	gpu, _ := list.device(gpus[0])
	s.mps.admit(response, percent, &gpu)
	if s.limitsMemory != nil && s.limitsMemory() {
		limitMemory(response, percent, &gpu)
	}
	return response
}
