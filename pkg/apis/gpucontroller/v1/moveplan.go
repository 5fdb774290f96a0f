// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MovePlan is a set of moves of running Pods of GPUTasks that makes room for a
// task that fits nowhere, gives back whole GPUs, nodes and leaves, or gets a task off
// GPUs that are not healthy. The
// rescheduler proposes it, carries it out once it is approved, and keeps a
// record in the status, so that another instance can continue if it dies.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=moveplans,singular=moveplan,shortName=mp,scope=Cluster
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where the plan is in its life"
// +kubebuilder:printcolumn:name="Goal",type=string,JSONPath=`.spec.goal`,description="What the moves are for"
// +kubebuilder:printcolumn:name="Task",type=string,JSONPath=`.spec.for.name`,description="Task that room is made for"
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.total`,description="Pods to move"
// +kubebuilder:printcolumn:name="Moved",type=integer,JSONPath=`.status.moved`,description="Pods that have been moved"
// +kubebuilder:printcolumn:name="Cost",type=integer,JSONPath=`.spec.costGPUSeconds`,description="Weighted GPU-seconds"
// +kubebuilder:printcolumn:name="Gain",type=integer,JSONPath=`.spec.gain.gpus`,description="GPUs gained"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,description="What is being waited for, or how it ended"
type MovePlan struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is to be moved, and whether it may be.
	// +required
	Spec MovePlanSpec `json:"spec"`

	// status is how far it has been carried out. It is written by the controller
	// only.
	// +optional
	Status MovePlanStatus `json:"status,omitempty"`
}

// MovePlanSpec is what is to be moved. Only approved and abort may be changed.
//
// +kubebuilder:validation:XValidation:rule="self.goal == oldSelf.goal && self.moves == oldSelf.moves && self.gain == oldSelf.gain && self.costGPUSeconds == oldSelf.costGPUSeconds && self.reason == oldSelf.reason",message="is immutable, except for approved and abort: a plan that no longer applies is aborted, and another one is proposed"
// +kubebuilder:validation:XValidation:rule="has(self.__for__) == has(oldSelf.__for__) && (!has(self.__for__) || self.__for__ == oldSelf.__for__) && has(self.places) == has(oldSelf.places) && (!has(self.places) || self.places == oldSelf.places)",message="is immutable, except for approved and abort: a plan that no longer applies is aborted, and another one is proposed"
// +kubebuilder:validation:XValidation:rule="self.approved || !oldSelf.approved",fieldPath=".approved",message="can't be withdrawn: set abort to stop the plan"
// +kubebuilder:validation:XValidation:rule="self.abort || !oldSelf.abort",fieldPath=".abort",message="can't be withdrawn: the rescheduler proposes a new plan"
type MovePlanSpec struct {
	// goal is what the moves are for: UnhealthyGPUs, a task that holds GPUs that are not
	// healthy; PendingTask, a task that fits nowhere; Capacity, whole GPUs, nodes and leaves;
	// Recreate, a new try of everything.
	// +required
	Goal MovePlanGoal `json:"goal"`

	// reason says in one sentence what the moves are for.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// for is the task that room is made for.
	// +optional
	For *TaskReference `json:"for,omitempty"`

	// places are where the Pods of that task will go. They are kept for them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Places []PodPlace `json:"places,omitempty"`

	// moves are the Pods to move, in the order in which they are moved: those of
	// one turn together, then those of the next one.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Moves []Move `json:"moves"`

	// costGPUSeconds is the sum of the moves' costs.
	// +required
	// +kubebuilder:validation:Minimum=0
	CostGPUSeconds int64 `json:"costGPUSeconds"`

	// gain is what the moves will bring as far as can be foreseen.
	// +required
	Gain MoveGain `json:"gain"`

	// approved lets the rescheduler carry out the plan. The rescheduler sets it if the cost
	// is within its limit; otherwise a person does.
	// +optional
	// +kubebuilder:default=false
	Approved bool `json:"approved"`

	// abort stops the plan: no more Pods are moved. Pods that have been moved
	// stay where they are.
	// +optional
	// +kubebuilder:default=false
	Abort bool `json:"abort"`
}

// MovePlanGoal is what moves are for.
//
// +kubebuilder:validation:Enum=UnhealthyGPUs;PendingTask;Capacity;Recreate
type MovePlanGoal string

// What moves are for.
const (
	// GoalUnhealthyGPUs moves a task off GPUs that are not healthy.
	GoalUnhealthyGPUs MovePlanGoal = "UnhealthyGPUs"
	// GoalPendingTask makes room for a task that fits nowhere.
	GoalPendingTask MovePlanGoal = "PendingTask"
	// GoalCapacity gives back whole GPUs, nodes and domains.
	GoalCapacity MovePlanGoal = "Capacity"
	// GoalRecreate reschedules all, task by task, wherever the scheduler puts them.
	GoalRecreate MovePlanGoal = "Recreate"
)

// TaskReference names a GPUTask.
type TaskReference struct {
	// namespace is the task's.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name is the task's.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// uid tells it from another one of the same name.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid,omitempty"`
}

// MovePlace is GPUs of a node.
type MovePlace struct {
	// node is empty if the scheduler chooses.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// gpus are the UUIDs of the cards; there are none on a node without an agent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	GPUs []string `json:"gpus,omitempty"`
}

// PodPlace is where a Pod will go.
type PodPlace struct {
	// pod is its name in the namespace of its task.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Pod string `json:"pod"`

	MovePlace `json:",inline"`
}

// Move takes a Pod from one place to another.
type Move struct {
	// turn counts from 0. The moves of one turn are carried out together: those of
	// a gang.
	// +required
	// +kubebuilder:validation:Minimum=0
	Turn int32 `json:"turn"`
	// task is the GPUTask that the Pod belongs to.
	// +required
	Task TaskReference `json:"task"`
	// pod is the Pod's name, which its replacement will have as well.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Pod string `json:"pod"`
	// podUID is the Pod that leaves.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	PodUID types.UID `json:"podUID"`
	// gpus is what the Pod has: a number of GPUs or a share of one, as the task's
	// gpu-amount.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	GPUs string `json:"gpus,omitempty"`
	// from is where the Pod is.
	// +required
	From MovePlace `json:"from"`
	// to is where its replacement will be.
	// +required
	To MovePlace `json:"to"`
	// costGPUSeconds is lostGPUSeconds times the weight of the Pod's priority, and
	// a constant for each move.
	// +required
	// +kubebuilder:validation:Minimum=0
	CostGPUSeconds int64 `json:"costGPUSeconds"`
	// lostGPUSeconds is the work that is lost: the time since the Pod's start or
	// last checkpoint, times its GPUs.
	// +required
	// +kubebuilder:validation:Minimum=0
	LostGPUSeconds int64 `json:"lostGPUSeconds"`
	// reason says why this Pod.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}

// MoveGain is what moves bring.
type MoveGain struct {
	// gpus is how many GPUs the task gets that room is made for; without one, how
	// many more are free as a whole.
	// +optional
	GPUs int32 `json:"gpus"`
	// nodes are those whose GPUs are no longer in use.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=253
	Nodes []string `json:"nodes,omitempty"`
	// domains are the leaves, racks and zones whose GPUs are no longer in use.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=253
	Domains []string `json:"domains,omitempty"`
}

// MovePlanPhase is where a plan is in its life.
//
// +kubebuilder:validation:Enum=Proposed;Approved;Executing;Done;Aborted
type MovePlanPhase string

// The phases of a plan. Done and Aborted are final.
const (
	// PlanProposed: waits for spec.approved.
	PlanProposed MovePlanPhase = "Proposed"
	// PlanApproved: will be carried out as soon as no other one is.
	PlanApproved MovePlanPhase = "Approved"
	// PlanExecuting: Pods are being moved.
	PlanExecuting MovePlanPhase = "Executing"
	// PlanDone: all that was to be moved was moved, or need not be any more.
	PlanDone MovePlanPhase = "Done"
	// PlanAborted: the rest of the moves is not carried out.
	PlanAborted MovePlanPhase = "Aborted"
)

// MovePlanStatus is how far a plan has been carried out.
type MovePlanStatus struct {
	// phase is where the plan is in its life: Proposed (waits for spec.approved),
	// Approved, Executing, Done or Aborted.
	// +optional
	Phase MovePlanPhase `json:"phase,omitempty"`

	// reason is one word for why the plan ended as it did.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says in one sentence what is being waited for, or how it ended.
	// +optional
	Message string `json:"message,omitempty"`

	// total is how many Pods are to be moved.
	// +optional
	Total int32 `json:"total,omitempty"`

	// moved is how many have been moved.
	// +optional
	Moved int32 `json:"moved"`

	// startTime is when the first Pod was about to be evicted.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// turnTime is when the present turn began: its time limit counts from here.
	// +optional
	TurnTime *metav1.Time `json:"turnTime,omitempty"`

	// completionTime is when the plan was done or aborted.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// moves are how far each of spec.moves is, in the same order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Moves []MoveStatus `json:"moves,omitempty"`

	// gain is what the moves really brought.
	// +optional
	Gain *MoveGain `json:"gain,omitempty"`
}

// MoveState is how far a move is.
//
// +kubebuilder:validation:Enum=Waiting;Evicted;Moved;Elsewhere;Skipped
type MoveState string

// How far a move is.
const (
	// MoveWaiting: the Pod is where it was.
	MoveWaiting MoveState = "Waiting"
	// MoveEvicted: the Pod leaves or has left; its replacement does not run yet.
	MoveEvicted MoveState = "Evicted"
	// MoveMoved: the replacement is where it was to go.
	MoveMoved MoveState = "Moved"
	// MoveElsewhere: the replacement has a node, but another one.
	MoveElsewhere MoveState = "Elsewhere"
	// MoveSkipped: the Pod ended by itself, or its task was stopped, or the plan
	// was aborted before.
	MoveSkipped MoveState = "Skipped"
)

// MoveStatus is how far one move is.
type MoveStatus struct {
	// state is Waiting (the Pod is where it was), Evicted (its replacement does not
	// run yet), Moved, Elsewhere (it came to be on another node) or Skipped.
	// +required
	State MoveState `json:"state"`
	// evictedAt is when the Pod was evicted.
	// +optional
	EvictedAt *metav1.Time `json:"evictedAt,omitempty"`
	// node is where the replacement is.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// lostGPUSeconds is the work that was lost when it was evicted.
	// +optional
	LostGPUSeconds int64 `json:"lostGPUSeconds,omitempty"`
}

// MovePlanList is a list of MovePlans.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type MovePlanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []MovePlan `json:"items"`
}
