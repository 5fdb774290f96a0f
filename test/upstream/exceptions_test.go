// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

// exceptions are the workloads that do not run, with the reason. All others do, also those
// that a later version of Kubernetes adds.
var exceptions = map[string]string{}

// configs are the arguments of plugins that topics need, as a cluster's administrator would
// set them.
var configs = map[string]string{
	// The racks of upstream's nodes have another label than ours.
	"podgroup/tas": `
profiles:
- pluginConfig:
  - name: GPUGang
    args:
      apiVersion: gpuscheduler.falldio.com/v1
      kind: GPUGangArgs
      topologyLevels:
      - {name: zone, nodeLabel: topology.kubernetes.io/zone}
      - {name: rack, nodeLabel: topology.kubernetes.io/rack}
`,
}
