// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/test/node"
)

// checkpoint is the part of the device manager's checkpoint that we read.
type checkpoint struct {
	Data struct {
		PodDeviceEntries []struct {
			PodUID, ContainerName, ResourceName string
			// DeviceIDs are the devices by NUMA node.
			DeviceIDs map[string][]string
		}
	}
}

// checkpointed returns the devices that a Pod has in the kubelet's checkpoint, by
// resource. It may lag behind the Pod.
func checkpointed(pod types.UID) (map[string][]string, error) {
	data, err := os.ReadFile(filepath.Join(node.KubeletDirectory, "device-plugins", "kubelet_internal_checkpoint"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var notes checkpoint
	if err := json.Unmarshal(data, &notes); err != nil {
		return nil, err
	}
	devices := map[string][]string{}
	for _, entry := range notes.Data.PodDeviceEntries {
		if entry.PodUID != string(pod) {
			continue
		}
		for _, ids := range entry.DeviceIDs {
			devices[entry.ResourceName] = append(devices[entry.ResourceName], ids...)
		}
		slices.Sort(devices[entry.ResourceName])
	}
	return devices, nil
}
