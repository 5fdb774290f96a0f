// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GPUQueue is a share of the cluster's GPUs: what a team may hold at most, what it gets back
// from others when it needs it, and in which order its work starts. Queues form a tree: a
// queue's guarantees, limits and weight are parts of its parent's.
//
// The queue of a Pod is in its label falldio.com/queue, which spec.queue of a GPUTask sets;
// otherwise in the same label of its namespace; otherwise it is the only queue whose
// namespaceSelector matches the namespace. Pods without GPUs have no queue.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=gpuqueues,singular=gpuqueue,shortName=gpuq,scope=Cluster
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parent`,priority=1,description="Queue that this one is a part of"
// +kubebuilder:printcolumn:name="Guaranteed",type=string,JSONPath=`.status.summary.guaranteed`,description="GPUs that the queue gets whenever it has work for them"
// +kubebuilder:printcolumn:name="Limit",type=string,JSONPath=`.status.summary.limit`,description="GPUs that the queue never exceeds"
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.summary.used`,description="GPUs that the queue holds"
// +kubebuilder:printcolumn:name="Borrowed",type=string,JSONPath=`.status.summary.borrowed`,description="GPUs of these that are beyond its guarantee"
// +kubebuilder:printcolumn:name="Waiting",type=string,JSONPath=`.status.summary.waiting`,description="GPUs that the queue's waiting Pods ask for"
// +kubebuilder:printcolumn:name="Share",type=string,JSONPath=`.status.usage.factor`,description="Share of the GPU time used lately, over the share that is due by weight"
// +kubebuilder:printcolumn:name="GPU-hours",type=string,JSONPath=`.status.usage.gpuHours`,priority=1,description="GPU time of the queue in all"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the queue works as specified"
// +kubebuilder:printcolumn:name="Effective",type=string,JSONPath=`.status.conditions[?(@.type=="Effective")].status`,description="Whether all parts of the spec take effect in the cluster"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1,description="What is wrong with the queue"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must have at most 63 lower-case letters, digits and '-', beginning and ending with a letter or digit, because it is the value of the label falldio.com/queue"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.parent) || self.spec.parent != self.metadata.name",fieldPath=".spec.parent",message="a queue cannot be its own parent: leave parent out, or name another queue"
type GPUQueue struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the queue gets, and who may use it.
	// +required
	Spec GPUQueueSpec `json:"spec"`

	// status is what the controller observed last. It is written by the controller only.
	// +optional
	Status GPUQueueStatus `json:"status,omitempty"`
}

// GPUQueueSpec is what a queue gets, and who may use it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxRuntimeSeconds) || !has(self.defaultRuntimeSeconds) || self.defaultRuntimeSeconds <= self.maxRuntimeSeconds",fieldPath=".defaultRuntimeSeconds",message="must not be greater than spec.maxRuntimeSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.resources) || self.resources.all(t, t.gpu != '*' || !has(t.limit) || self.resources.filter(r, r.gpu != '*').map(r, r.guaranteed).sum() <= t.limit)",fieldPath=".resources",message="the limit of \"*\" counts all GPUs of the queue: it must not be less than what is guaranteed of the models together"
type GPUQueueSpec struct {
	// parent is the queue that this one is a part of. Its GPUs also count for the parent, so that
	// the parent's limits apply to all of its children together. Default: none, the queue is a
	// part of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a GPUQueue: lower-case letters, digits and '-', beginning and ending with a letter or digit, for example \"research\""
	Parent string `json:"parent,omitempty"`

	// namespaceSelector selects the namespaces whose Pods may use the queue, by the labels of the
	// namespaces; the label kubernetes.io/metadata.name has the namespace's name. {} selects all.
	// Default: none, which suits a queue that only has children.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",fieldPath=".matchExpressions",message="each operator must be In or NotIn, with values, or Exists or DoesNotExist, without"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// resources are the guarantees and limits, by GPU model. A GPU counts against the entry of
	// its model and against that of "*", and both apply. Default: no guarantees, and only the
	// parent's limits apply.
	// +optional
	// +listType=map
	// +listMapKey=gpu
	// +kubebuilder:validation:MaxItems=64
	Resources []GPUQueueResource `json:"resources,omitempty"`

	// weight is the queue's fair share of the GPU time, relative to the other children of its
	// parent that have work: of two queues with weights 1 and 3, one gets a quarter and the other
	// three quarters. Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Weight *int32 `json:"weight,omitempty"`

	// maxRuntimeSeconds is how long a task of the queue may run, all its runs together. A
	// task that declares more, with spec.maxRuntimeSeconds or the annotation
	// falldio.com/max-runtime-seconds of other Pods, does not start; a GPUTask that declares nothing
	// is stopped after that time, and fails. A lower limit applies to runs that start later, a higher
	// one at once. The lowest limit of the queue and its ancestors applies. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MaxRuntimeSeconds *int64 `json:"maxRuntimeSeconds,omitempty"`

	// defaultRuntimeSeconds is the run time that the scheduler assumes for tasks of the queue that
	// declare no maxRuntimeSeconds. They are not stopped after it. Default: that of the parent, else
	// maxRuntimeSeconds, else a prediction from earlier tasks.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	DefaultRuntimeSeconds *int64 `json:"defaultRuntimeSeconds,omitempty"`

	// priorities are the PriorityClasses that Pods of the queue may have. A Pod whose PriorityClass
	// is not listed does not start in the queue. To accept Pods that name no class, list the
	// cluster's default class, or "" if there is none. Default: those of the parent, else all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(p, p == '' || p.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",message="must be names of PriorityClasses, for example \"gpu-high-priority\", or \"\" for Pods without one"
	Priorities []string `json:"priorities,omitempty"`

	// reclaim says how queues that are below their guarantee reclaim GPUs that this queue has
	// borrowed, which are those beyond its guarantee. Default: that of the parent, else Any at once,
	// with a notice of 60 seconds.
	// +optional
	Reclaim *GPUQueueReclaim `json:"reclaim,omitempty"`
}

// AnyGPU stands for the GPUs of all models together in a GPUQueue's resources.
const AnyGPU = "*"

// GPUQueueResource is what a queue gets of a GPU model.
//
// +kubebuilder:validation:XValidation:rule="!has(self.limit) || self.limit >= self.guaranteed",fieldPath=".limit",message="must not be less than guaranteed: raise limit, or lower guaranteed"
type GPUQueueResource struct {
	// gpu is the GPU model, the value of the node label falldio.com/gpu, or "*" for the GPUs
	// of all models together, including those that have an entry of their own.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*]|[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$')",message="must be a GPU model as in the node label falldio.com/gpu, for example \"rtx4090\", or \"*\" for all models together"
	GPU string `json:"gpu"`

	// guaranteed is how many GPUs the queue gets whenever it has work for them: while it holds
	// fewer, its work comes first, and GPUs that others have borrowed are reclaimed for it.
	// While it has no work for them, others may borrow them. The guarantees of children are parts
	// of the guarantee of their parent. Default: 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Guaranteed int32 `json:"guaranteed"`

	// limit is the maximum number of GPUs that the queue and its children hold, including borrowed
	// ones. Default: only the parent's limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Limit *int32 `json:"limit,omitempty"`
}

// GPUQueueReclaim says how GPUs that a queue has borrowed are reclaimed. It does not limit
// preemption for tasks of a higher priority in the queue itself.
type GPUQueueReclaim struct {
	// policy says for which tasks: Any, for all tasks of queues that are below their guarantee;
	// LowerPriority, only for those of higher priority than the task that is stopped; Never,
	// borrowed GPUs are not reclaimed before the tasks on them end. Default: Any.
	// +optional
	// +kubebuilder:default=Any
	Policy ReclaimPolicy `json:"policy,omitempty"`

	// minRuntimeSeconds is the minimum run time of a task on borrowed GPUs before it may be
	// stopped for this reason, at most a week. Default: 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	MinRuntimeSeconds *int32 `json:"minRuntimeSeconds,omitempty"`

	// noticeSeconds is how long a task continues after the notice, the annotation
	// falldio.com/checkpoint-requested on its Pods, at most an hour. A task with a checkpoint mode
	// may have more time, and is stopped earlier if it has saved its work. Default: 60.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	NoticeSeconds *int32 `json:"noticeSeconds,omitempty"`
}

// ReclaimPolicy says for whom borrowed GPUs are taken back: the values are ReclaimAny,
// ReclaimLowerPriority and ReclaimNever.
//
// +kubebuilder:validation:Enum=Any;LowerPriority;Never
type ReclaimPolicy string

// For whom borrowed GPUs are taken back.
const (
	ReclaimAny           ReclaimPolicy = "Any"
	ReclaimLowerPriority ReclaimPolicy = "LowerPriority"
	ReclaimNever         ReclaimPolicy = "Never"
)

// The defaults of GPUQueueReclaim, which hold as well if no queue up to the root has a
// spec.reclaim.
const (
	DefaultReclaimMinRuntimeSeconds int32 = 0
	DefaultReclaimNoticeSeconds     int32 = 60
)

// ConditionQueueReady is True while the queue works as specified, and otherwise False with
// one of the reasons below.
const ConditionQueueReady = "Ready"

// Reasons of the condition Ready.
const (
	// ReasonQueueAccepted: nothing is wrong.
	ReasonQueueAccepted = "Accepted"
	// ReasonParentNotFound: spec.parent does not exist.
	ReasonParentNotFound = "ParentNotFound"
	// ReasonParentCycle: the queue is its own ancestor.
	ReasonParentCycle = "ParentCycle"
	// ReasonGuaranteeExceedsParent: its parent is guaranteed less than its children together.
	ReasonGuaranteeExceedsParent = "GuaranteeExceedsParent"
	// ReasonInvalidSelector: spec.namespaceSelector is no valid selector.
	ReasonInvalidSelector = "InvalidSelector"
)

// ConditionQueueEffective is True while nothing about the cluster makes parts of the spec void, and otherwise
// False with one of the reasons below.
const ConditionQueueEffective = "Effective"

// Reasons of the condition Effective.
const (
	// ReasonQueueEffective: nothing is void.
	ReasonQueueEffective = "Effective"
	// ReasonUnknownModel: no node has a GPU model that the spec names.
	ReasonUnknownModel = "UnknownModel"
	// ReasonGuaranteeExceedsCluster: more is guaranteed than the cluster has.
	ReasonGuaranteeExceedsCluster = "GuaranteeExceedsCluster"
	// ReasonLimitBelowPod: a Pod waits that asks for more than the limit.
	ReasonLimitBelowPod = "LimitBelowPod"
)

// GPUQueueStatus is what the controller observed last. It is at most a minute old.
type GPUQueueStatus struct {
	// observedGeneration is the metadata.generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the queue's conditions: Ready and Effective, with the reason if it is not.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// summary has the columns of "kubectl get gpuqueues".
	// +optional
	Summary *GPUQueueSummary `json:"summary,omitempty"`

	// resources are the GPUs that the queue and its children hold and ask for: an entry for each of
	// spec.resources, for each model they hold or ask for, and for "*", all together.
	// +optional
	// +listType=map
	// +listMapKey=gpu
	// +kubebuilder:validation:MaxItems=256
	Resources []GPUQueueUsed `json:"resources,omitempty"`

	// usage is how much GPU time the queue and its children have used.
	// +optional
	Usage *GPUQueueTime `json:"usage,omitempty"`

	// running is how many tasks of the queue and its children hold GPUs. Other gangs and Pods
	// count as one task each.
	// +optional
	Running int32 `json:"running"`

	// waiting is how many tasks of the queue and its children wait for GPUs, counted in the same way.
	// +optional
	Waiting int32 `json:"waiting"`
}

// GPUQueueSummary has the numbers of a queue in one line: "16" if only "*" is
// concerned, otherwise as "h100-80gb-hbm3=8,*=16".
type GPUQueueSummary struct {
	// guaranteed are the guarantees of the spec.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Guaranteed string `json:"guaranteed,omitempty"`
	// limit are the limits of the spec.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Limit string `json:"limit,omitempty"`
	// used are the GPUs that the queue and its children hold, of all models together.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Used string `json:"used,omitempty"`
	// borrowed are those of these GPUs that are beyond the guarantee.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Borrowed string `json:"borrowed,omitempty"`
	// waiting are the GPUs that their waiting Pods ask for, of all models together.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Waiting string `json:"waiting,omitempty"`
}

// GPUQueueUsed is how many GPUs of a model a queue and its children hold and ask for. The numbers are
// written as gpu-amount of a task: "8", or "0.5" with a share of a card.
type GPUQueueUsed struct {
	// gpu is the model, or "*" for all together. Waiting Pods that take any model count with "*"
	// only.
	// +required
	// +kubebuilder:validation:MaxLength=63
	GPU string `json:"gpu"`
	// used are the GPUs that they hold.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Used string `json:"used"`
	// borrowed are those of these GPUs that are beyond the guarantee.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Borrowed string `json:"borrowed"`
	// waiting are the GPUs that Pods without a node ask for.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Waiting string `json:"waiting"`
}

// GPUQueueTime is how much GPU time a queue and its children have used.
type GPUQueueTime struct {
	// gpuSeconds is the GPU time with decay: it counts half after each half-life. It decides fair
	// share.
	// +required
	// +kubebuilder:validation:Minimum=0
	GPUSeconds int64 `json:"gpuSeconds"`
	// ownGPUSeconds is the part of the queue's own Pods in it, without its children's.
	// +required
	// +kubebuilder:validation:Minimum=0
	OwnGPUSeconds int64 `json:"ownGPUSeconds"`
	// halfLifeSeconds is the half-life.
	// +required
	// +kubebuilder:validation:Minimum=1
	HalfLifeSeconds int64 `json:"halfLifeSeconds"`
	// asOf is up to when the GPU time was counted. gpuSeconds has decayed to this time.
	// +required
	AsOf metav1.Time `json:"asOf"`
	// factor is the queue's share of gpuSeconds relative to its share by weight, for example
	// "0.80": below 1, its work starts sooner than that of others. It is absent while no GPU time
	// was used.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Factor string `json:"factor,omitempty"`
	// gpuHours is the GPU time since the queue was created, without decay, for example "1234.500".
	// +required
	// +kubebuilder:validation:MaxLength=32
	GPUHours string `json:"gpuHours"`
}

// GPUQueueList is a list of GPUQueues.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type GPUQueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []GPUQueue `json:"items"`
}
