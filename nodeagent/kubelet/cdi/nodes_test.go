// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheGPUsBehindCDIDevices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nodes := NewNodes(filepath.Join(dir, "missing"), dir)
	// What drivers describe after the agent has started counts, too.
	for name, text := range map[string]string{
		"k8s.gpu.nvidia.com-device.yaml": `{"cdiVersion":"0.5.0","kind":"k8s.gpu.nvidia.com/device","containerEdits":{"deviceNodes":[{"path":"/dev/nvidiactl"}]},"devices":[
			{"name":"gpu-0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0"},{"path":"/dev/dri/card1"}]}},
			{"name":"gpu-1-mig-1g","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia1"},{"path":"/dev/nvidia-caps/nvidia-cap3"}]}},
			{"name":"odd","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia-1"},{"path":"/dev/nvidia+1"},{"path":"/dev/nvidia-caps/nvidia-cap"}]}}]}`,
		"broken.json": `{"cdiVersion`,
		// The library panics at vendors and classes of one letter.
		"letter.json":  `{"cdiVersion":"0.5.0","kind":"v/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia5"}]}}]}`,
		"letters.json": `{"cdiVersion":"0.5.0","kind":"vendor.com/g","devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia5"}]}}]}`,
		"twice-1.json": `{"cdiVersion":"0.5.0","kind":"vendor.com/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia5"}]}}]}`,
		"twice-2.json": `{"cdiVersion":"0.5.0","kind":"vendor.com/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia6"}]}}]}`,
		"other.txt":    `{"cdiVersion":"0.5.0","kind":"vendor.com/text","devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia5"}]}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		names []string
		want  DeviceNodes
	}{
		"a GPU":               {[]string{"k8s.gpu.nvidia.com/device=gpu-0"}, DeviceNodes{GPUs: []int{0}}},
		"a part of a GPU":     {[]string{"k8s.gpu.nvidia.com/device=gpu-1-mig-1g"}, DeviceNodes{GPUs: []int{1}, Capabilities: []int{3}}},
		"several":             {[]string{"k8s.gpu.nvidia.com/device=gpu-1-mig-1g", "k8s.gpu.nvidia.com/device=gpu-0"}, DeviceNodes{GPUs: []int{1, 0}, Capabilities: []int{3}}},
		"one that is unknown": {[]string{"k8s.gpu.nvidia.com/device=gpu-7"}, DeviceNodes{}},
		"what is no number":   {[]string{"k8s.gpu.nvidia.com/device=odd"}, DeviceNodes{}},
		"something else":      {[]string{"vendor.com/nic=eth1", "no name"}, DeviceNodes{}},
		"one of a vendor, or a class, of one letter": {[]string{"v/gpu=0", "vendor.com/g=0"}, DeviceNodes{}},
		"one that is described twice":                {[]string{"vendor.com/gpu=0"}, DeviceNodes{}},
		"what is no specification":                   {[]string{"vendor.com/text=0"}, DeviceNodes{}},
		"no device":                                  {nil, DeviceNodes{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, nodes.Of(test.names)); diff != "" {
				t.Errorf("minor numbers (-want +got):\n%s", diff)
			}
		})
	}
}
