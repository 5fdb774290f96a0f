// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import corev1 "k8s.io/api/core/v1"

// ResourceGPU is the extended resource that counts a node's whole GPUs, as the
// node agent's device plugin publishes it.
const ResourceGPU corev1.ResourceName = GroupName + "/gpu"

// ResourceGPUPercent is the extended resource for a share of one GPU: 46 is 46 %
// of a card. A node has 100 of it for each GPU. Only gpu-scheduler knows that
// both resources are the same cards.
const ResourceGPUPercent corev1.ResourceName = GroupName + "/gpu-percent"

// ResourceNVIDIAGPU is the extended resource that counts a node's whole GPUs, as NVIDIA's
// device plugin publishes it. On a node that offers both, they are the same cards.
const ResourceNVIDIAGPU corev1.ResourceName = "nvidia.com/gpu"

// Labels and taints of Nodes.
const (
	// LabelGPUModel names the model of a node's GPUs, for example "rtx4090" or
	// "h100-80gb-hbm3". It is what spec.gpu of a GPUTask selects.
	LabelGPUModel = GroupName + "/gpu"
	// LabelGPUCount is the number of physical GPUs of a node, healthy or not and whether or
	// not MIG divides them.
	LabelGPUCount = GroupName + "/gpu-count"
	// LabelGPUMemory is the memory of each GPU of a node in MiB, as a plain
	// integer, so that node affinity can compare it with Gt.
	LabelGPUMemory = GroupName + "/gpu-memory"
	// LabelGPUDriver is the version of the GPUs' driver, "570.124.06".
	LabelGPUDriver = GroupName + "/gpu-driver"
	// LabelGPUCUDA is the newest CUDA version that the driver supports, "12.8".
	LabelGPUCUDA = GroupName + "/gpu-cuda"
	// LabelGPUComputeCapability is the CUDA compute capability of a node's GPUs,
	// "9.0".
	LabelGPUComputeCapability = GroupName + "/gpu-compute-capability"
	// LabelGPUHealth is Healthy, Degraded (some GPUs are not healthy, or missing) or
	// Unhealthy (none is healthy).
	LabelGPUHealth = GroupName + "/gpu-health"
	// LabelGPUFreeMemory is how much of the node's GPU memory is free, in
	// percent, rounded down to 0, 25, 50 or 75.
	LabelGPUFreeMemory = GroupName + "/gpu-free-memory"
	// LabelMIGStrategy says how a node's GPUs are divided into MIG slices: MIGSingle or MIGMixed.
	// Without the label there are no slices.
	LabelMIGStrategy = GroupName + "/mig-strategy"
	// LabelGPUAllocation says who gives out a node's GPUs. AllocationDRA is the only value;
	// without the label it is the device plugin.
	LabelGPUAllocation = GroupName + "/gpu-allocation"
	// LabelNodePool names the node pool that a node belongs to. It is what
	// spec.nodePool of a GPUTask selects.
	LabelNodePool = GroupName + "/node-pool"
	// LabelLeaf names the leaf switch that a node hangs on.
	LabelLeaf = GroupName + "/leaf"
	// TaintGPU keeps Pods that need no GPU off the GPU nodes. The Pods of
	// GPUTasks tolerate it, and NVIDIA's TaintNVIDIA as well.
	TaintGPU = GroupName + "/gpu"
	// TaintNVIDIA is the taint that cloud providers put on GPU nodes.
	TaintNVIDIA = "nvidia.com/gpu"
	// TaintGPUUnhealthy is the taint of nodes whose GPUs are not healthy, if gpu-controller runs
	// with --taint-unhealthy-gpus. Its value is that of LabelGPUHealth: Degraded or Unhealthy.
	TaintGPUUnhealthy = GroupName + "/gpu-unhealthy"
)

// The values of LabelMIGStrategy, named after the strategies of NVIDIA's device plugin.
const (
	// MIGSingle: every GPU is divided, and all slices are of one profile.
	MIGSingle = "single"
	// MIGMixed: there are slices otherwise.
	MIGMixed = "mixed"
)

// AllocationDRA is the value of LabelGPUAllocation on a node whose GPUs are given out by the
// driver DRADriver, over dynamic resource allocation (DRA).
const AllocationDRA = "dra"

// DRADriver is the name of the DRA driver of this project, and of its DeviceClass for whole GPUs.
const DRADriver = "gpu." + GroupName

// The values of LabelGPUHealth.
const (
	GPUsHealthy   = "Healthy"
	GPUsDegraded  = "Degraded"
	GPUsUnhealthy = "Unhealthy"
)

// ConditionGPUHealthy is a condition of Nodes with GPUs, which the node agent sets: True if all
// GPUs are healthy and none is missing, Unknown if nothing is known of them.
const ConditionGPUHealthy corev1.NodeConditionType = "GPUHealthy"

// Labels of nodes that NVIDIA's GPU feature discovery sets. They stand in for ours on nodes
// without a node agent.
const (
	// LabelNVIDIAProduct is the name of the product, "NVIDIA-H100-80GB-HBM3".
	LabelNVIDIAProduct = "nvidia.com/gpu.product"
	// LabelNVIDIAMemory is the memory of each GPU, in MiB.
	LabelNVIDIAMemory = "nvidia.com/gpu.memory"
)

// Labels of the Pods that a GPUTask owns.
const (
	// LabelApp and LabelAppValue mark every Pod of every GPUTask for people. Policies of a cluster may
	// change that label.
	LabelApp      = "app"
	LabelAppValue = "gpu-task"
	// LabelTask is the name of the GPUTask that a Pod belongs to. Pods of tasks are those that have it.
	LabelTask = GroupName + "/gputask"
	// LabelIndex is the Pod's index among its task's replicas, from 0.
	LabelIndex = GroupName + "/index"
	// LabelRole is the Pod's role, and LabelRoleIndex its index among the Pods of that role, from
	// 0, in a task with roles.
	LabelRole      = GroupName + "/role"
	LabelRoleIndex = GroupName + "/role-index"
	// LabelAttempt counts how often the Pod's place in the task was started
	// again after a failure, from 0.
	LabelAttempt = GroupName + "/attempt"
	// LabelTemplateHash is a hash of what the Pod was made from, as far as it may change while the
	// task is suspended: templates, priority, queue and checkpoint. A Pod with another hash than
	// its task's is replaced.
	LabelTemplateHash = GroupName + "/template-hash"
)

// SelectorOfTasks selects the Pods of GPUTasks, and SelectorOfOthers all other Pods.
const (
	SelectorOfTasks  = LabelTask
	SelectorOfOthers = "!" + LabelTask
)

// LabelQueue is the GPUQueue that a Pod is in. On a Namespace, it is the queue of the Pods there that
// name none.
const LabelQueue = GroupName + "/queue"

// Labels and annotations with which Pods of any controller tell gpu-scheduler
// that they belong together. The Pods of a GPUTask with several replicas have
// them.
const (
	// LabelPodGroup names the gang of a Pod within its namespace. The members may
	// differ in what they need.
	LabelPodGroup = GroupName + "/pod-group"
	// LabelMinAvailable is how many Pods of the gang start together or not at
	// all, from 1. All members bear the same number.
	LabelMinAvailable = GroupName + "/min-available"
	// AnnotationTopologyLevel is the level of domains, "leaf", that the gang
	// should be in one of. The levels are arguments of the scheduler.
	AnnotationTopologyLevel = GroupName + "/topology-level"
	// AnnotationTopologyMode is Required or Preferred, the default.
	AnnotationTopologyMode = GroupName + "/topology-mode"
	// AnnotationNetworkTarget is the address that the Pod wants to reach fast, as
	// the node agents' prober takes it: "https://data.example.com". The profile
	// for network speed looks at it.
	AnnotationNetworkTarget = GroupName + "/network-target"
	// AnnotationNetworkModule is the module of the node agents' prober that
	// measures it, "http_2xx".
	AnnotationNetworkModule = GroupName + "/network-module"
)

// AnnotationLastCheckpoint is when a task last saved its work, RFC 3339:
// "2026-11-21T12:00:00Z". It may be on the GPUTask or on the Pod; the later one
// counts. Only the work since then is lost by a move or a preemption.
const AnnotationLastCheckpoint = GroupName + "/last-checkpoint"

// AnnotationCheckpointTimeout is on Pods that want to save their work before they are preempted or
// moved: for how many seconds they may do so.
const AnnotationCheckpointTimeout = GroupName + "/checkpoint-timeout-seconds"

// AnnotationCheckpointRequested is when a Pod was asked to save its work, RFC 3339, because it is
// about to be stopped. It has done so when AnnotationLastCheckpoint, on the Pod or its task, is not
// earlier.
const AnnotationCheckpointRequested = GroupName + "/checkpoint-requested"

// AnnotationMaxRuntime is for how many seconds a Pod will run at most, counted from when its task
// runs. It counts only if somebody stops the Pod then: gpu-controller, if a GPUTask controls it, or
// the kubelet, if its spec.activeDeadlineSeconds is not greater. 0 is no limit.
const AnnotationMaxRuntime = GroupName + "/max-runtime-seconds"

// AnnotationPastRuntime is on the Pods of a GPUTask that had been running before they were created: for
// how many seconds. Without it, AnnotationMaxRuntime is all that the task declares, less this otherwise.
const AnnotationPastRuntime = GroupName + "/past-runtime-seconds"

// AnnotationStartEstimate is when gpu-scheduler expects a waiting Pod, and its gang, to start: a
// StartEstimate in JSON. Of a gang, one Pod has it. It is empty while nobody can know that.
const AnnotationStartEstimate = GroupName + "/start-estimate"

// AnnotationWaitingReason is why a Pod, and its gang, have no nodes: a WaitingReason in JSON. Of a gang, one Pod has
// it. It holds as long as the Pod's condition PodScheduled says the same in words, and is empty once the Pod has a
// node.
const AnnotationWaitingReason = GroupName + "/waiting-reason"

// AnnotationSchedulerInstance names the gpu-scheduler process that has bound a Pod, or
// has made sure that no Binding of a process before it can come true any more:
// "gpu-scheduler-5d9f_0f6c…/17". The number makes each a change of the Pod.
const AnnotationSchedulerInstance = GroupName + "/scheduler-instance"

// The values of AnnotationTopologyMode.
const (
	TopologyRequired  = "Required"
	TopologyPreferred = "Preferred"
)

// ContainerName is the container of a Pod that does the task's work and gets
// its GPUs.
const ContainerName = "gpu-task"
