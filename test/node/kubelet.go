// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"fmt"
	"os"
	"path/filepath"

	"falldio.github.io/gpu-controller/test/cluster"
	"falldio.github.io/gpu-controller/test/programs"
)

const (
	// KubeletDirectory is hard-coded in device plugins: the kubelet's socket is there.
	KubeletDirectory = "/var/lib/kubelet"
	// ClusterDomain is the domain of the names of Services.
	ClusterDomain = "cluster.local"
)

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
clusterDNS: [` + Address + `]
clusterDomain: ` + ClusterDomain + `
podLogsDir: /var/log/pods
volumePluginDir: ` + KubeletDirectory + `/volume-plugins
authentication:
  anonymous: {enabled: true}
  webhook: {enabled: false}
authorization: {mode: AlwaysAllow}
nodeStatusUpdateFrequency: 1s
nodeLeaseDurationSeconds: 8
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%", pid.available: "0%%"}
`

func newKubelet(dir, cgroup, kubeconfig string) (*Program, error) {
	config := filepath.Join(dir, "kubelet.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, kubeletConfig, cgroup), 0o600); err != nil {
		return nil, err
	}
	return NewProgram(dir, "kubelet", append([]string{cluster.Kubelet(programs.Binary("kubelet"))},
		"--config="+config, "--kubeconfig="+kubeconfig, "--root-dir="+KubeletDirectory, "--cert-dir="+filepath.Join(dir, "kubelet-pki"),
		"--hostname-override="+Name, "--node-ip="+Address,
		// Log what happens to Pods and device plugins, but not the periodic messages.
		"--vmodule=kubelet=2,manager=2,server=2")...), nil
}
