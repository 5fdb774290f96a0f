// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// shareVariable tells a container how much it has of its GPU, in percent.
const shareVariable = "GPU_SHARE_PERCENT"

// Sharing is how shares of GPUs are handed out.
type Sharing struct {
	// MPSPipeDirectory is the folder in which NVIDIA's MPS control daemon has its
	// pipes, "/tmp/nvidia-mps"; empty if no limits shall be set.
	MPSPipeDirectory string
}

// sharing hands out shares of GPUs. A container gets shares of one GPU.
type sharing struct {
	visibility
	mps mps
}

var _ offer = &sharing{}

func (s *sharing) toKubelet(list *listing) []*pluginapi.Device {
	devices := make([]*pluginapi.Device, 0, share.PerGPU*len(list.devices))
	for place := range list.devices {
		gpu := &list.devices[place]
		near := topology(gpu) // all of its shares are told the same one
		for number := range share.PerGPU {
			devices = append(devices, &pluginapi.Device{ID: share.ID(gpu.ID, number), Health: health(gpu), Topology: near})
		}
	}
	return devices
}

// candidate is a GPU that has as many shares left as are wanted.
type candidate struct {
	// ids are its available shares.
	ids []string
	// used is 1 if somebody has it as a whole, promised is 1 if it was chosen for
	// others so far that there will not be enough for this container.
	used, promised int
	// left is how many shares nobody would have then.
	left int
}

// choose takes the GPU that has the fewest shares left then, so that others stay
// whole. What is in use as a whole is the last resort: it is refused in the end,
// but with a reason that can be understood.
func (s *sharing) choose(list *listing, r *request, promised *promises, used inUse) ([]string, error) {
	available := map[string][]string{}
	for _, id := range r.available {
		gpu := share.GPU(id)
		available[gpu] = append(available[gpu], id)
	}
	must := share.GPUs(r.must)
	var candidates []candidate
	for place := range list.devices {
		gpu := list.devices[place].ID
		ids := available[gpu]
		if len(ids) < r.size || len(must) > 0 && !slices.Equal(must, []string{gpu}) {
			continue
		}
		left := len(ids) - r.size
		candidates = append(candidates, candidate{
			ids: ids, left: left, used: number(len(used[gpu].whole) > 0),
			promised: number(promised.whole[gpu] || left < promised.shares[gpu]),
		})
	}
	if len(candidates) == 0 {
		return nil, fmt.Errorf("no GPU has %d %% left", r.size)
	}
	best := slices.MinFunc(candidates, func(a, b candidate) int {
		return cmp.Or(a.used-b.used, a.promised-b.promised, a.left-b.left)
	})
	return r.take(list, best.ids), nil
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// check refuses shares of several GPUs, which the kubelet puts together if it
// finds no GPU with enough of them, or if its topology manager insists on a NUMA
// node.
func (s *sharing) check(ids []string) error {
	gpus := share.GPUs(ids)
	if len(gpus) == 1 {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "the kubelet chose %d %% of %d GPUs together (%s), but a container gets a share of one GPU: no GPU has as much left",
		len(ids), len(gpus), strings.Join(gpus, ", "))
}

func (s *sharing) present(list *listing, ids []string) *pluginapi.ContainerAllocateResponse {
	gpus, percent := share.GPUs(ids), len(ids)
	response := s.show(gpus)
	if response.Envs == nil {
		response.Envs = map[string]string{}
	}
	response.Envs[shareVariable] = strconv.Itoa(percent)
	if s.mps.runs() {
		gpu, _ := list.device(gpus[0])
		maps.Copy(response.Envs, s.mps.limits(percent, gpu.MemoryMiB))
		response.Mounts = append(response.Mounts, s.mps.mount())
	}
	return response
}
