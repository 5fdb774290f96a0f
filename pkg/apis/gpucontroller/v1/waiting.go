// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WaitingReason is why waiting work has no nodes, as gpu-scheduler sees it: the value of the annotation
// falldio.com/waiting-reason of Pods, in JSON. Its place in its queue, and when it is expected to start, are in
// the annotation falldio.com/start-estimate.
type WaitingReason struct {
	// reason is the cause in one word.
	Reason WaitingCause `json:"reason"`
	// needs is what its Pods need, in words: "needs at once 8 × 1 GPU of h100-80gb-hbm3".
	Needs string `json:"needs,omitempty"`
	// message is the cause in words: "5 nodes have another GPU model, 2 have too few free GPUs".
	Message string `json:"message"`
	// never is true if it would not fit even if nothing else ran.
	Never bool `json:"never,omitempty"`
	// nodes counts the nodes by why they can't take a further Pod of it, the most frequent cause first.
	Nodes []WaitingNodes `json:"nodes,omitempty"`
	// remedies are changes each of which alone lets it start.
	Remedies []WaitingRemedy `json:"remedies,omitempty"`
	// time is when it was found.
	Time metav1.Time `json:"time"`
}

// WaitingNodes are nodes that can't take a further Pod for one and the same cause.
type WaitingNodes struct {
	// count is how many there are; 0 if no node whatsoever can take it.
	Count int32 `json:"count,omitempty"`
	// cause is one word of the scheduler's, such as OtherModel or InsufficientGPUs, or the name of the plugin
	// of kube-scheduler that refuses nodes that have room.
	Cause string `json:"cause"`
	// resource is the one that the cause is about, if it is about one without a word of its own.
	Resource string `json:"resource,omitempty"`
	// message is the cause in words: "have too few free GPUs", or what the plugin says.
	Message string `json:"message"`
}

// WaitingRemedy is a change that lets waiting work start.
type WaitingRemedy struct {
	// kind is what has to change, such as FreeGPUs, AcceptModels or FewerMembers.
	Kind string `json:"kind"`
	// value is what it would have to be instead: a GPU model, how many Pods or GPUs, or a quantity of a
	// resource. For FreeGPUs it is how many more of them have to be free.
	Value string `json:"value,omitempty"`
	// resource is the one of which there is to be less, if kind does not say it.
	Resource string `json:"resource,omitempty"`
	// message completes the sentence "it would start …": "with 2 more free GPUs in leaf-3".
	Message string `json:"message"`
	// nodes are those on which GPUs have to be free, for FreeGPUs, or that have to take Pods again, for OpenNodes,
	// at most eight.
	Nodes []string `json:"nodes,omitempty"`
}

// WaitingCause is why work waits, in one word.
type WaitingCause string

// The causes. Others may be added.
const (
	// WaitsForGPUs: nodes have too few free GPUs, or too little of one.
	WaitsForGPUs WaitingCause = "GPUs"
	// WaitsForCPUOrMemory: nodes have too little of something else free.
	WaitsForCPUOrMemory WaitingCause = "CPUOrMemory"
	// WaitsForNodesTogether: nodes have room, but too few of them, or not together.
	WaitsForNodesTogether WaitingCause = "TooFewTogether"
	// WaitsForNodes: there are no nodes.
	WaitsForNodes WaitingCause = "NoNodes"
	// WaitsForConstraints: nodes are not such as it demands, or a plugin of kube-scheduler refuses them.
	WaitsForConstraints WaitingCause = "Constraints"
	// WaitsForever: it would not fit even if nothing else ran.
	WaitsForever WaitingCause = "Never"
	// WaitsForClosedNodes: only nodes that are cordoned or not ready could take it.
	WaitsForClosedNodes WaitingCause = "ClosedNodes"
	// WaitsForPlan: MovePlans keep places for others.
	WaitsForPlan WaitingCause = "Reserved"
	// WaitsForMoves: its own places, which a MovePlan keeps for it, are not free yet.
	WaitsForMoves WaitingCause = "Moving"
	// WaitsForExternal: a plugin of kube-scheduler would let it run on no node, whatever else left: it waits for
	// something that no scheduler can give it, such as a volume.
	WaitsForExternal WaitingCause = "External"
	// WaitsForQueue: a limit of its GPUQueue does not let it start now.
	WaitsForQueue WaitingCause = "Queue"
	// WaitsForQueueAccess: it may not use its GPUQueue.
	WaitsForQueueAccess WaitingCause = "QueueAccess"
	// WaitsForClaims: its resource claims are not ready.
	WaitsForClaims WaitingCause = "Claims"
	// WaitsForChange: what it demands is invalid.
	WaitsForChange WaitingCause = "Invalid"
	// WaitsForUnknown: none of the other causes is known.
	WaitsForUnknown WaitingCause = "Unknown"
)
