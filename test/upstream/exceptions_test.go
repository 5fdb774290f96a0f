// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

// exceptions are the workloads that do not run, with the reason. All others do, also those
// that a later version of Kubernetes adds.
var exceptions = map[string]string{
	"dra/workloadresourceclaims/SharedPodGroupResourceClaim/1podgroup_1000pods": ofPodGroups +
		": without it each of the 1,000 Pods reserves the claim, which has room for 256",
	"dra/workloadresourceclaims/SharedPodGroupResourceClaimTemplate/fast":               ofPodGroups,
	"dra/workloadresourceclaims/SharedPodGroupResourceClaimTemplate/1podgroup_1000pods": ofPodGroups,
}

const ofPodGroups = "the claim is the PodGroup's, which needs the feature gate DRAWorkloadResourceClaims in the scheduler; " +
	"it depends on Kubernetes' own gang scheduling, which stays off in gpu-scheduler (docs/scheduling.md, Limits)"

// configs are the arguments of plugins that topics need, as a cluster's administrator would
// set them.
var configs = map[string]string{
	// Upstream waits until every member of a gang has a condition.
	"starvation": `
profiles:
- pluginConfig:
  - name: GPUGang
    args:
      apiVersion: gpuscheduler.falldio.com/v1
      kind: GPUGangArgs
      reportUnschedulableMembers: true
`,
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
