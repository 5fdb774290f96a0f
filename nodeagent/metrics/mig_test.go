// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// divided puts a device into MIG mode, with two slices, of which one could not be read.
func divided(d *gpu.Device) {
	d.MIG = true
	d.Slices = []gpu.Slice{
		{UUID: "MIG-a", Profile: "1g.10gb", MemoryBytes: 10 << 30, GPUInstance: 7},
		{UUID: "MIG-b", Profile: "3g.40gb", MemoryBytes: 40 << 30, GPUInstance: 1, ComputeInstance: gpu.Unknown},
	}
	d.SliceValues = map[string]gpu.Values{"MIG-a": {gpu.MemoryUsed: 1 << 30, gpu.MemoryFree: 9 << 30}}
}

func TestTheMemoryOfSlices(t *testing.T) {
	t.Parallel()
	node := held(t, newNode("n1", device(0, divided, measuring(gpu.MemoryUsed, 2<<30))), holds("train-0", "c", "MIG-a"))
	const (
		gpuBefore = `UUID="GPU-a",compute_instance="`
		common    = `device="nvidia0",gpu="0",gpu_instance="`
		after     = `hostname="n1",`
		model     = `modelName="NVIDIA H100 80GB HBM3",namespace="`
		bus       = `pci_bus_id="00000000:1B:00.0",pod="`
		small     = gpuBefore + `0",container="c",` + common + `7",` + after + `mig_uuid="MIG-a",` + model + `research",` + bus + `train-0",profile="1g.10gb"} `
		half      = gpuBefore + `",container="",` + common + `1",` + after + `mig_uuid="MIG-b",` + model + `",` + bus + `",profile="3g.40gb"} `
	)
	want := []string{
		"falldio_gpu_mig_memory_bytes{" + half + "4.294967296e+10",
		"falldio_gpu_mig_memory_bytes{" + small + "1.073741824e+10",
		"falldio_gpu_mig_memory_free_bytes{" + small + "9.663676416e+09",
		"falldio_gpu_mig_memory_used_bytes{" + small + "1.073741824e+09",
	}
	if diff := cmp.Diff(want, scrape(t, collectorOf(false, node), "falldio_gpu_mig_memory")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestDCGMHasTheMemoryOfTheSlicesInsteadOfTheGPU(t *testing.T) {
	t.Parallel()
	node := newNode("n1", device(0, divided, measuring(gpu.MemoryUsed, 2<<30), measuring(gpu.MemoryFree, 78<<30)), device(1, measuring(gpu.MemoryUsed, 3<<20)))
	const rest = `container="",device="nvidia0",gpu="0",hostname="n1",modelName="NVIDIA H100 80GB HBM3",namespace="",pci_bus_id="00000000:1B:00.0",pod=""} `
	want := []string{
		`DCGM_FI_DEV_FB_FREE{GPU_I_ID="7",GPU_I_PROFILE="1g.10gb",UUID="GPU-a",` + rest + "9216",
		`DCGM_FI_DEV_FB_USED{UUID="GPU-b",container="",device="nvidia1",gpu="1",hostname="n1",modelName="NVIDIA H100 80GB HBM3",namespace="",pci_bus_id="00000000:1B:00.0",pod=""} 3`,
		`DCGM_FI_DEV_FB_USED{GPU_I_ID="7",GPU_I_PROFILE="1g.10gb",UUID="GPU-a",` + rest + "1024",
	}
	if diff := cmp.Diff(want, scrape(t, collectorOf(true, node), "DCGM_FI_DEV_FB_")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	own := scrape(t, collectorOf(true, node), "falldio_gpu_memory_used_bytes")
	if len(own) != 2 {
		t.Errorf("our own metric of the GPUs is %v", own)
	}
}
