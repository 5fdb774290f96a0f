// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// fakeContainers has uses by GPU.
type fakeContainers map[string][]ContainerUse

func (f fakeContainers) Of(uuid string) []ContainerUse { return f[uuid] }

func TestWhatContainersUseIsExported(t *testing.T) {
	t.Parallel()
	node := newNode("n1", device(0), device(1))
	if got := scrape(t, collectorOf(false, node), "falldio_gpu_container"); got != nil {
		t.Errorf("nothing is known, but there is %v", got)
	}
	node.Containers = fakeContainers{
		"GPU-a": {
			{"research", "train", "gpu-task", 2, gpu.Values{
				gpu.MemoryUsed: 1 << 30, gpu.Utilization: 0.5, gpu.MemoryUtilization: 0.25, gpu.EncoderUtilization: 0, gpu.DecoderUtilization: 0.125,
			}},
			{Container: Others, Processes: 1, Values: gpu.Values{gpu.MemoryUsed: 1 << 20}}, // the driver measures nothing else
		},
		"GPU-z": {{"research", "elsewhere", "gpu-task", 1, nil}},
	}
	const (
		train  = `{UUID="GPU-a",container="gpu-task",gpu="0",hostname="n1",namespace="research",pod="train"} `
		others = `{UUID="GPU-a",container="other",gpu="0",hostname="n1",namespace="",pod=""} `
	)
	want := []string{
		"falldio_gpu_container_decoder_utilization_ratio" + train + "0.125",
		"falldio_gpu_container_encoder_utilization_ratio" + train + "0",
		"falldio_gpu_container_memory_used_bytes" + train + "1.073741824e+09",
		"falldio_gpu_container_memory_used_bytes" + others + "1.048576e+06",
		"falldio_gpu_container_memory_utilization_ratio" + train + "0.25",
		"falldio_gpu_container_processes" + train + "2",
		"falldio_gpu_container_processes" + others + "1",
		"falldio_gpu_container_sm_utilization_ratio" + train + "0.5",
	}
	if diff := cmp.Diff(want, scrape(t, collectorOf(true, node), "falldio_gpu_container")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}
