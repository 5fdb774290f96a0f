// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// kubeletDirectory is hard-coded in device plugins: the kubelet's socket is there.
const kubeletDirectory = "/var/lib/kubelet"

// kubeletConfig turns off what a test node does not need: authentication, garbage
// collection by free space, and the limits of a production machine. The kubelet
// reports often, so that tests need not wait.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://` + containerdSocket + `
cgroupDriver: cgroupfs
cgroupRoot: /%s
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
resolvConf: ""
clusterDNS: [` + nodeAddress + `]
clusterDomain: ` + clusterDomain + `
podLogsDir: /var/log/pods
volumePluginDir: ` + kubeletDirectory + `/volume-plugins
authentication:
  anonymous: {enabled: true}
  webhook: {enabled: false}
authorization: {mode: AlwaysAllow}
nodeStatusUpdateFrequency: 1s
nodeLeaseDurationSeconds: 8
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%", pid.available: "0%%"}
`

func newKubelet(dir, cgroup, kubeconfig string) (*program, error) {
	config := filepath.Join(dir, "kubelet.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, kubeletConfig, cgroup), 0o600); err != nil {
		return nil, err
	}
	return newProgram(dir, "kubelet", binary(localcluster), "component", "kubelet",
		"--config="+config, "--kubeconfig="+kubeconfig, "--root-dir="+kubeletDirectory, "--cert-dir="+filepath.Join(dir, "kubelet-pki"),
		"--hostname-override="+nodeName, "--node-ip="+nodeAddress,
		// Log what happens to Pods and device plugins, but not the periodic messages.
		"--vmodule=kubelet=2,manager=2,server=2"), nil
}

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
	data, err := os.ReadFile(filepath.Join(kubeletDirectory, "device-plugins", "kubelet_internal_checkpoint"))
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
