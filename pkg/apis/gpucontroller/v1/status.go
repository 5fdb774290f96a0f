// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GPUTaskPhase is where a task is in its life.
//
// +kubebuilder:validation:Enum=Waiting;Pending;Running;Succeeded;Failed;Suspended
type GPUTaskPhase string

// The phases of a task. Succeeded and Failed are final.
const (
	// PhaseWaiting: dependencies are not met, no Pods exist.
	PhaseWaiting GPUTaskPhase = "Waiting"
	// PhasePending: fewer Pods than spec.minAvailable (default: all) run or
	// have succeeded, at first or again.
	PhasePending GPUTaskPhase = "Pending"
	// PhaseRunning: at least spec.minAvailable Pods (default: all) run or have
	// succeeded, and one runs.
	PhaseRunning GPUTaskPhase = "Running"
	// PhaseSucceeded: every Pod has succeeded.
	PhaseSucceeded GPUTaskPhase = "Succeeded"
	// PhaseFailed: the task has failed for good; no Pod of it runs.
	PhaseFailed GPUTaskPhase = "Failed"
	// PhaseSuspended: spec.suspend is true, or a queueing system such as Kueue has not admitted the
	// task, and no Pod runs.
	PhaseSuspended GPUTaskPhase = "Suspended"
)

// The types of a task's conditions. Succeeded and Failed work with
// "kubectl wait --for=condition=...".
const (
	// ConditionDependenciesMet turns True once and for all when the task may
	// start; it is absent without dependencies.
	ConditionDependenciesMet = "DependenciesMet"
	// ConditionPodsCreated is False, with the reason, while the API server
	// refuses a Pod of the task.
	ConditionPodsCreated = "PodsCreated"
	// ConditionNodesReachable is False, with the names, while a Pod that should have stopped is kept
	// since its node does not answer, or is supposed to run on such a node.
	ConditionNodesReachable = "NodesReachable"
	// ConditionScheduled is True while every active Pod has a node; otherwise
	// it carries the scheduler's words about the first that has none.
	ConditionScheduled = "Scheduled"
	// ConditionRunning is True while the phase is Running.
	ConditionRunning = "Running"
	// ConditionSuspended is True while spec.suspend or a queueing system holds the task, or Pods stop that
	// were made before it was changed.
	ConditionSuspended = "Suspended"
	// ConditionFailureTarget turns True when the task is going to fail and its
	// Pods are being stopped.
	ConditionFailureTarget = "FailureTarget"
	// ConditionSucceeded turns True when every Pod has succeeded.
	ConditionSucceeded = "Succeeded"
	// ConditionFailed turns True when the task has failed for good.
	ConditionFailed = "Failed"
	// ConditionReconciling is True while the task has not started, and ConditionStalled turns True
	// when it has failed, for tools that understand no other conditions, such as Flux:
	// https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
)

// TaskReason is why a task does not run, in one word: the reason of its condition Reconciling.
type TaskReason string

// The reasons why a task does not run. Others may be added.
const (
	// TaskStarting: its Pods have nodes, are about to get them, or start again after a failure.
	TaskStarting TaskReason = "Starting"
	// TaskQueued: it waits for GPUs, or for other things that nodes have, until others leave.
	TaskQueued TaskReason = "Queued"
	// TaskBlocked: it waits for something that no scheduler can give it.
	TaskBlocked TaskReason = "Blocked"
	// TaskNeverFits: it can't start as requested, even if nothing else ran.
	TaskNeverFits TaskReason = "NeverFits"
)

// Reasons of the conditions FailureTarget and Failed.
const (
	ReasonBackoffLimitExceeded = "BackoffLimitExceeded"
	ReasonDeadlineExceeded     = "DeadlineExceeded"
	ReasonDependencyFailed     = "DependencyFailed"
	ReasonInvalidPod           = "InvalidPod"
	ReasonRefusedByNodes       = "RefusedByNodes"
	ReasonPodsLost             = "PodsLost"
	ReasonStartTimeout         = "StartTimeoutExceeded"
	ReasonFailureRule          = "FailureRule"
	ReasonMaxRuntimeExceeded   = "MaxRuntimeExceeded"
	ReasonFailedIndexes        = "FailedIndexes"
	ReasonMaxFailedIndexes     = "MaxFailedIndexesExceeded"
	// ReasonDeleted: somebody has deleted the task, and somebody's finalizer keeps it.
	ReasonDeleted = "Deleted"
)

// GPUTaskStatus is what the controller observed last.
type GPUTaskStatus struct {
	// observedGeneration is the metadata.generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is where the task is in its life: Waiting (for dependencies),
	// Pending (not enough Pods run), Running, Suspended, Succeeded or Failed.
	// +optional
	Phase GPUTaskPhase `json:"phase,omitempty"`

	// message says in one sentence what the task waits for or how it ended.
	// +optional
	Message string `json:"message,omitempty"`

	// estimatedStart is when the task is expected to start, while it waits in a queue. It is
	// written at most once a minute, and only if it has moved noticeably.
	// +optional
	EstimatedStart *StartEstimate `json:"estimatedStart,omitempty"`

	// total is the number of Pods that the task is made of: that of all its roles, and of an
	// array with those that have not begun.
	// +optional
	Total int32 `json:"total,omitempty"`

	// pending is the number of Pods that do not run yet. All numbers and the
	// nodes may be up to 10 seconds old while Pods come and go; the phase is
	// not.
	// +optional
	Pending int32 `json:"pending,omitempty"`

	// running is the number of Pods that run.
	// +optional
	Running int32 `json:"running"`

	// succeeded is the number of Pods that have succeeded.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is the number of Pods that have failed and still exist.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// selector selects the Pods of the task by their labels, for HorizontalPodAutoscalers.
	// +optional
	Selector string `json:"selector,omitempty"`

	// completedIndexes are the indexes of the Pods that have succeeded, in
	// the format of batch/v1 Job: comma-separated numbers and ranges such as
	// "0,2-4". They are not run again when their Pods are deleted.
	// +optional
	CompletedIndexes string `json:"completedIndexes,omitempty"`

	// failedIndexes are the indexes of the Pods of an array that have failed for good, in the
	// same format.
	// +optional
	FailedIndexes string `json:"failedIndexes,omitempty"`

	// failedNodes are the last nodes on which Pods of the task failed, or that refused them, at
	// most 8. New Pods prefer other nodes.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	FailedNodes []FailedNode `json:"failedNodes,omitempty"`

	// roles is how far each of the task's roles is.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Roles []RoleStatus `json:"roles,omitempty"`

	// nodes are the nodes of the task's Pods that exist, sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	Nodes []string `json:"nodes,omitempty"`

	// restarts is the number of failures that were followed by a new start.
	// +optional
	Restarts int32 `json:"restarts,omitempty"`

	// taskRestarts says how often all Pods of the task were started again together.
	// +optional
	TaskRestarts *TaskRestarts `json:"taskRestarts,omitempty"`

	// podRestarts says which Pods were restarted by themselves, and how often, since all Pods
	// were started together.
	// +optional
	// +listType=map
	// +listMapKey=index
	// +kubebuilder:validation:MaxItems=1000
	PodRestarts []PodRestarts `json:"podRestarts,omitempty"`

	// lastFailureTime is when the last Pod failed: the waiting time before the
	// next start counts from here.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`

	// refusals says how often nodes have refused Pods that were bound to them, since all Pods of
	// the task ran for the last time. The waiting time before the next attempt doubles, as after
	// a failure.
	// +optional
	Refusals *Refusals `json:"refusals,omitempty"`

	// losses says how often Pods were lost without a failure, none of which had run for long: evicted,
	// preempted, deleted, or given up because they had not started in time. The waiting time before the next attempt
	// doubles with each.
	// +optional
	Losses *Losses `json:"losses,omitempty"`

	// lastInterruption is when and why Pods of the task were taken away last, by preemption or eviction or with their
	// node.
	// +optional
	LastInterruption *Interruption `json:"lastInterruption,omitempty"`

	// moves is how often the rescheduler has moved the task, or Pods of it, to
	// other nodes.
	// +optional
	Moves int32 `json:"moves,omitempty"`

	// lastMove is the last of these moves.
	// +optional
	LastMove *LastMove `json:"lastMove,omitempty"`

	// startTime is when the controller first set out to create the Pods, after
	// dependencies were met and, for a suspended task, after it was resumed.
	// activeDeadlineSeconds counts from here.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// runningSince is when the task became Running for the last time, while it is. It may be later
	// than the start of the first Pods by as long as the status may be old.
	// +optional
	RunningSince *metav1.Time `json:"runningSince,omitempty"`

	// pastRuntimeSeconds is for how long the task was Running before runningSince.
	// maxRuntimeSeconds limits both together.
	// +optional
	PastRuntimeSeconds int64 `json:"pastRuntimeSeconds,omitempty"`

	// queueRuntime is for how long the task's GPUQueue lets it run; absent if that has no limit. It
	// is what the queue said when the present run began, or more, if the queue has said so since.
	// +optional
	QueueRuntime *QueueRuntime `json:"queueRuntime,omitempty"`

	// completionTime is when the task succeeded or failed.
	// ttlSecondsAfterFinished counts from here.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// conditions are the task's conditions: DependenciesMet, PodsCreated, NodesReachable,
	// Scheduled, Running, Suspended, FailureTarget, Succeeded, Failed,
	// Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FailedNode is a node on which Pods of a task have failed.
type FailedNode struct {
	// name is the node's name.
	// +required
	Name string `json:"name"`

	// failures is how often Pods of the task failed there or were refused.
	// +required
	// +kubebuilder:validation:Minimum=1
	Failures int32 `json:"failures"`

	// lastTime is when it happened last.
	// +required
	LastTime metav1.Time `json:"lastTime"`
}

// RoleStatus is how far a role of a task is.
type RoleStatus struct {
	// name is the role's name.
	// +required
	Name string `json:"name"`

	// replicas is the number of Pods of the role.
	// +required
	Replicas int32 `json:"replicas"`

	// running is the number of its Pods that run.
	// +required
	Running int32 `json:"running"`

	// succeeded is the number of its Pods that have succeeded.
	// +required
	Succeeded int32 `json:"succeeded"`
}

// Refusals are how often nodes have refused the Pods of a task.
type Refusals struct {
	// count is how often it happened. Pods that are refused together count once.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count"`

	// lastPodTime is when the Pod that was refused last was created.
	// +required
	LastPodTime metav1.Time `json:"lastPodTime"`

	// node is the node that refused it.
	// +optional
	Node string `json:"node,omitempty"`

	// message is why.
	// +optional
	Message string `json:"message,omitempty"`
}

// Losses are how often in a row a task has lost Pods without a failure.
type Losses struct {
	// count is how often it happened. Pods that are lost together count once.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count"`

	// lastPodTime is when the Pod that was lost last was created.
	// +required
	LastPodTime metav1.Time `json:"lastPodTime"`

	// nextTime is when those that were lost may be created again.
	// +required
	NextTime metav1.Time `json:"nextTime"`

	// indexes are the indexes of the Pods that were lost, in the format of completedIndexes. Those of
	// an array are replaced by themselves; the others don't wait for them.
	// +optional
	Indexes string `json:"indexes,omitempty"`

	// reason is how the last one was lost: PodLost, Preempted or StartTimeout; Ignored if it failed, and a failure rule
	// ignores that.
	// +required
	Reason LossReason `json:"reason"`

	// message is which Pod it was, and what is known about it.
	// +optional
	Message string `json:"message,omitempty"`
}

// LossReason is how a Pod was lost.
//
// +kubebuilder:validation:Enum=PodLost;Preempted;StartTimeout;Ignored
type LossReason string

// How Pods are lost.
const (
	// LossPodLost: the Pod was evicted or deleted, or lost with its node.
	LossPodLost LossReason = "PodLost"
	// LossPreempted: the scheduler needed its place for a Pod of a higher priority.
	LossPreempted LossReason = "Preempted"
	// LossStartTimeout: the Pod had not started after spec.startTimeoutSeconds.
	LossStartTimeout LossReason = "StartTimeout"
	// LossIgnored: the Pod has failed, and a failure rule says that it does not count.
	LossIgnored LossReason = "Ignored"
)

// Interruption is when and why Pods of a task were taken away.
type Interruption struct {
	// time is when.
	// +required
	Time metav1.Time `json:"time"`

	// reason is what happened to them: Preempted, Moved, Drained, Evicted, NodeLost, StoppedByNode or, if it is nothing
	// of that, Disrupted.
	// +required
	Reason InterruptionReason `json:"reason"`

	// node is the node that the Pods, or one of them, were on.
	// +optional
	Node string `json:"node,omitempty"`

	// message is what is known beyond that: for whom a Pod was preempted, for example.
	// +optional
	Message string `json:"message,omitempty"`

	// savedTime is when the Pods, or one of them, saved their work last; absent if that is not known.
	// +optional
	SavedTime *metav1.Time `json:"savedTime,omitempty"`

	// endTime is when the task ran again; absent until then.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
}

// InterruptionReason is what takes Pods away.
//
// +kubebuilder:validation:Enum=Preempted;Moved;Drained;Evicted;NodeLost;StoppedByNode;Disrupted
type InterruptionReason string

// What takes Pods away.
const (
	// InterruptionPreempted: the scheduler needed their places for others.
	InterruptionPreempted InterruptionReason = "Preempted"
	// InterruptionMoved: the rescheduler evicted them to start them elsewhere, as a MovePlan says.
	InterruptionMoved InterruptionReason = "Moved"
	// InterruptionDrained: they were evicted from a node that is cordoned, as kubectl drain does.
	InterruptionDrained InterruptionReason = "Drained"
	// InterruptionEvicted: somebody else asked the API for evictions.
	InterruptionEvicted InterruptionReason = "Evicted"
	// InterruptionNodeLost: their node has gone, or could not be reached, or had a taint that they don't tolerate.
	InterruptionNodeLost InterruptionReason = "NodeLost"
	// InterruptionStoppedByNode: the kubelet stopped them to save the node, or as it was shut down.
	InterruptionStoppedByNode InterruptionReason = "StoppedByNode"
	// InterruptionDisrupted: something else, which the message says.
	InterruptionDisrupted InterruptionReason = "Disrupted"
)

// LastMove is when and why a task was moved.
type LastMove struct {
	// time is when its Pods were evicted. The rescheduler's cooldown counts from
	// here.
	// +required
	Time metav1.Time `json:"time"`

	// plan is the name of the MovePlan.
	// +required
	Plan string `json:"plan"`
}

// TaskRestarts counts the new starts of all Pods of a task.
type TaskRestarts struct {
	// count is the number of the attempt, from 0: it rises by at least one with each new start.
	// +required
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`

	// lastFailureTime is when the last attempt failed: the waiting time before the next one
	// counts from here. It is absent if it did not fail, but lost a Pod.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`
}

// PodRestarts counts the new starts of one Pod of a gang.
type PodRestarts struct {
	// index is the Pod's index in the gang, from 0.
	// +required
	// +kubebuilder:validation:Minimum=0
	Index int32 `json:"index"`

	// count is how often the Pod failed and was restarted.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count"`

	// lastFailureTime is when the Pod failed last: the waiting time before its
	// next start counts from here.
	// +required
	LastFailureTime metav1.Time `json:"lastFailureTime"`
}

// StartEstimate is when waiting work is expected to start. As a value of the annotation
// falldio.com/start-estimate of Pods it is JSON.
type StartEstimate struct {
	// earliest, likely and latest are times; the start is expected between the first and the
	// last.
	// +required
	Earliest metav1.Time `json:"earliest"`
	// +required
	Likely metav1.Time `json:"likely"`
	// +required
	Latest metav1.Time `json:"latest"`
	// queue is its queue; empty for none. position is its place there, from 1.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Queue string `json:"queue,omitempty"`
	// +optional
	Position int32 `json:"position,omitempty"`
	// behind is running work that has to end before it starts, the last of it, in words:
	// "train-7 (8 GPUs)". If it waits for work that waits itself, this is what that waits for.
	// What runs in other namespaces is not named.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Behind string `json:"behind,omitempty"`
	// assumedRuntimeSeconds is for how long work is assumed to run of which no run time is known,
	// if the start depends on such work; 0 if it does not. It depends on all work that is expected
	// to end before on the nodes that it starts on, and on what that waits for in turn.
	// assumedFor is that work, in words as in behind: of several, one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AssumedRuntimeSeconds int64 `json:"assumedRuntimeSeconds,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=253
	AssumedFor string `json:"assumedFor,omitempty"`
	// rough is true if run times that the start depends on were learned from few jobs, from fewer
	// than 30 of one namespace with the same name, size or limit, or if work has run longer than
	// all that these say.
	// +optional
	Rough bool `json:"rough,omitempty"`
	// backfill is true if it is expected to start before work that has an earlier position in its
	// queue: it fits beside what is booked for that. Without it, no work with an earlier position
	// is expected to start later.
	// +optional
	Backfill bool `json:"backfill,omitempty"`
	// reserved is true if its place is booked for it from then on: others use it only if
	// they end before.
	// +optional
	Reserved bool `json:"reserved,omitempty"`
}

// QueueRuntime is for how long a GPUQueue lets a task run.
type QueueRuntime struct {
	// maxSeconds is for how many seconds the task may be Running, all its runs together.
	// +required
	// +kubebuilder:validation:Minimum=1
	MaxSeconds int64 `json:"maxSeconds"`

	// queue is the GPUQueue whose maxRuntimeSeconds that is: the task's, or one of its ancestors.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Queue string `json:"queue"`
}
