// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

// Labels with which a campaign marks objects.
const (
	// LabelInfeasible is on tasks, and their Pods, that can never start.
	LabelInfeasible = "chaos.falldio.com/infeasible"
	// LabelGuarded is on Pods whose eviction a PodDisruptionBudget forbids as long as they run.
	LabelGuarded = "chaos.falldio.com/guarded"
	// LabelForeign is on Pods that are no task's.
	LabelForeign = "chaos.falldio.com/foreign"
	// LabelFuzzed is on objects of a flood: nobody waits for their end.
	LabelFuzzed = "chaos.falldio.com/fuzzed"
	// LabelRevision is in the templates of tasks that were changed: how often.
	LabelRevision = "chaos.falldio.com/revision"
	// LabelProbe is on tasks, and their Pods, for which there is a node that nobody else wants.
	LabelProbe = "chaos.falldio.com/probe"
)

// The users of the processes under test.
const (
	UserController = "system:serviceaccount:gpu-controller-system:gpu-controller"
	UserScheduler  = "system:serviceaccount:gpu-controller-system:gpu-scheduler"
	UserAgent      = "system:serviceaccount:nodeagent-system:nodeagent"
)

// Kinds of faults that explain what happens afterwards. Others only disturb.
const (
	// FaultKill is the SIGKILL of a process, FaultSkew two of them.
	FaultKill = "kill"
	FaultSkew = "skew"
	// FaultPause is a process that is stopped for a while with SIGSTOP.
	FaultPause = "pause"
	// FaultCRD is a deleted CustomResourceDefinition, FaultNamespace a deleted namespace.
	FaultCRD       = "delete CRD"
	FaultNamespace = "delete namespace"
	// FaultPartition is a node from which nothing is heard, FaultNotReady one that says it is not
	// ready, FaultDelete one that is deleted, FaultCordon one that is cordoned.
	FaultPartition = "partition node"
	FaultNotReady  = "node not ready"
	FaultDelete    = "delete node"
	FaultCordon    = "cordon node"
	// FaultReboot is a node that was rebooted, or has lost its containers otherwise: how they ended, nobody knows.
	// FaultShutdown is one that stops its Pods before it shuts down, FaultPressure one that evicts them because its
	// memory is used up.
	FaultReboot   = "reboot node"
	FaultShutdown = "shut down node"
	FaultPressure = "memory pressure"
	// FaultGPU is a GPU that breaks.
	FaultGPU = "break GPU"
	// FaultResponses is requests of a process to the API server that fail in some way.
	FaultResponses = "responses"
	// FaultDisk is a full disk, FaultFlood many objects that make no sense.
	FaultDisk  = "full disk"
	FaultFlood = "flood"
)
