// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

func TestWhichGPUsAClaimHolds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := `{"cdiVersion":"0.5.0","kind":"k8s.gpu.nvidia.com/device","devices":[{"name":"gpu-1","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia1"}]}},
		{"name":"gpu-3-mig-7","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia3"},{"path":"/dev/nvidia-caps/nvidia-cap66"},{"path":"/dev/nvidia-caps/nvidia-cap67"}]}},
		{"name":"gpu-3-mig-9","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia3"},{"path":"/dev/nvidia-caps/nvidia-cap99"}]}}]}`
	if err := os.WriteFile(filepath.Join(dir, "nvidia.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	snapshot := &gpu.Snapshot{Devices: []gpu.Device{
		{Info: gpu.Info{UUID: "GPU-a", Minor: 1}}, {Info: gpu.Info{UUID: "GPU-b", Minor: 0}}, {Info: gpu.Info{UUID: "GPU-c", Minor: gpu.Unknown}},
		{Info: gpu.Info{UUID: "GPU-d", Minor: 3, MIG: true, Slices: []gpu.Slice{{UUID: "MIG-a", Capability: 67}, {UUID: "MIG-b", Capability: gpu.Unknown}}}},
	}}
	claimed := newClaimedGPUs(func() *gpu.Snapshot { return snapshot }, dir)
	tests := map[string]struct {
		device podresources.ClaimedDevice
		want   []string
	}{
		"by its device node":          {podresources.ClaimedDevice{Name: "gpu-1", CDI: []string{"k8s.gpu.nvidia.com/device=gpu-1"}}, []string{"GPU-a"}},
		"a slice by its capability":   {podresources.ClaimedDevice{Name: "gpu-3-mig-7", CDI: []string{"k8s.gpu.nvidia.com/device=gpu-3-mig-7"}}, []string{"MIG-a"}},
		"a slice by its name":         {podresources.ClaimedDevice{Name: "MIG-b"}, []string{"MIG-b"}},
		"an unknown slice of a GPU":   {podresources.ClaimedDevice{Name: "gpu-3-mig-9", CDI: []string{"k8s.gpu.nvidia.com/device=gpu-3-mig-9"}}, []string{"GPU-d"}},
		"by its name":                 {podresources.ClaimedDevice{Name: "GPU-b"}, []string{"GPU-b"}},
		"of our DRA driver":           {podresources.ClaimedDevice{Name: "gpu-c", CDI: []string{"gpu.falldio.com/gpu=GPU-c"}}, []string{"GPU-c"}},
		"of something else":           {podresources.ClaimedDevice{Name: "eth1", CDI: []string{"vendor.com/nic=eth1"}}, nil},
		"of a device that has no CDI": {podresources.ClaimedDevice{Name: "gpu-9"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, claimed.translate(&test.device)); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
		})
	}
}
