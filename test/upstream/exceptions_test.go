// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

// exceptions are the workloads that do not run, or not with a profile, with the reason. All
// others do, also those that a later version of Kubernetes adds.
var exceptions = map[string]string{
	"default_preemption/PreemptionPodGroupDisruptionMode/FastTest_PodGroupDisruptionMode_Single": keepsGangs,
	"default_preemption/PreemptionPodGroupDisruptionMode/FastTest_PodGroupDisruptionMode_All":    keepsGangs,
	"event_handling/EventHandlingPodDelete/2Nodes_20Pods/gpu-scheduler-network":                  needsSpreading,
	"dra/workloadresourceclaims/SharedPodGroupResourceClaim/1podgroup_1000pods": ofPodGroups +
		": without it each of the 1,000 Pods reserves the claim, which has room for 256",
	"dra/workloadresourceclaims/SharedPodGroupResourceClaimTemplate/fast":               ofPodGroups,
	"dra/workloadresourceclaims/SharedPodGroupResourceClaimTemplate/1podgroup_1000pods": ofPodGroups,
}

const needsSpreading = "15 Pods with 12 ports fit on two nodes only if the scores spread them, and this profile's don't"

const keepsGangs = "a single Pod without GPUs is to preempt members that a gang needs: in gpu-scheduler it takes only " +
	"those above the minimum (docs/scheduling.md, Preemption)"

const ofPodGroups = "the claim is the PodGroup's, which needs the feature gate DRAWorkloadResourceClaims in the scheduler; " +
	"it depends on Kubernetes' own gang scheduling, which stays off in gpu-scheduler (docs/scheduling-configuration.md, Profiles)"

// sizes are the parameters of test cases that have others than upstream's.
var sizes = map[string]map[string]int{
	// A Pod of a high priority comes five times a second and takes a node from those that the
	// test waits for. On a busy machine, five nodes are gone before these are scheduled, with
	// the stock scheduler as well.
	"default_preemption/PreemptionAsync": {"initNodes": 50, "initPods": 200},
}

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
