// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GPUTask runs a piece of work on GPUs: one Pod, or a gang of equal Pods, on
// nodes with the GPUs it asks for. Deleting a GPUTask deletes its Pods.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.running,selectorpath=.status.selector
// +kubebuilder:resource:path=gputasks,singular=gputask,shortName=gt,categories=all,scope=Namespaced
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where the task is in its life"
// +kubebuilder:printcolumn:name="GPU",type=string,JSONPath=`.spec.gpu`,description="GPU model that the task asks for"
// +kubebuilder:printcolumn:name="GPUs/Pod",type=string,JSONPath=`.spec['gpu-amount']`,description="GPUs of each Pod, or its share of one, or its MIG slices"
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.total`,description="Pods of the task"
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`,description="Pods that run now"
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.restarts`,description="Failures that led to a new start"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Priority",type=string,JSONPath=`.spec.priority`,priority=1,description="PriorityClass"
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.queue`,priority=1,description="GPUQueue that the task names"
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=`.spec.gpuProfile`,priority=1,description="Profile of the MIG slices that the task asks for"
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.nodePool`,priority=1,description="Node pool"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,description="What the task waits for, or how it ended"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 58",message="metadata.name must have at most 58 characters, so that the Pods' names <name>-<index> are valid host names"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.roles) || self.spec.roles.all(r, size(self.metadata.name) + size(r.name) <= 57)",fieldPath=".spec.roles",message="the task's name and a role's name must have at most 57 characters together, so that the Pods' names <name>-<role>-<index> are valid host names"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.dependsOn) || self.spec.dependsOn.all(d, d.name != self.metadata.name)",fieldPath=".spec.dependsOn",message="a task cannot depend on itself"
type GPUTask struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the task asks for.
	// +required
	Spec GPUTaskSpec `json:"spec"`

	// status is what the controller observed last. It is written by the
	// controller only.
	// +optional
	Status GPUTaskStatus `json:"status,omitempty"`
}

// GPUTaskSpec is what a task asks for. GPUs, CPU, memory, the number of Pods and
// dependencies are immutable: to change them, delete the task and recreate it.
// template, priority, queue and checkpoint can be changed while the task is suspended.
//
// +kubebuilder:validation:XValidation:rule="has(self.memory) == has(oldSelf.memory) && (!has(self.memory) || self.memory == oldSelf.memory || string(self.memory) == oldSelf.memory || self.memory == string(oldSelf.memory))",fieldPath=".memory",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.cpu) == has(oldSelf.cpu) && (!has(self.cpu) || self.cpu == oldSelf.cpu || string(self.cpu) == oldSelf.cpu || self.cpu == string(oldSelf.cpu))",fieldPath=".cpu",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.gpu) == has(oldSelf.gpu) && (!has(self.gpu) || self.gpu == oldSelf.gpu)",fieldPath=".gpu",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="self.gpu__dash__amount == oldSelf.gpu__dash__amount || string(self.gpu__dash__amount) == oldSelf.gpu__dash__amount || self.gpu__dash__amount == string(oldSelf.gpu__dash__amount)",fieldPath="['gpu-amount']",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.gpuProfile) == has(oldSelf.gpuProfile) && (!has(self.gpuProfile) || self.gpuProfile == oldSelf.gpuProfile)",fieldPath=".gpuProfile",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="!has(self.gpuProfile) || !string(self.gpu__dash__amount).startsWith('0.')",fieldPath="['gpu-amount']",message="must be a whole number of MIG slices with gpuProfile, for example \"1\": for a smaller part of a GPU, name a smaller profile; for a share of a GPU that is not divided, leave gpuProfile out"
// +kubebuilder:validation:XValidation:rule="!has(self.gpuProfile) || !has(self.gpuMemory)",fieldPath=".gpuMemory",message="must be left out with gpuProfile: the profile says how much memory a MIG slice has"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.roles.all(r, !has(r.gpuProfile) && !has(self.gpuProfile) || !string(has(r.gpu__dash__amount) ? r.gpu__dash__amount : self.gpu__dash__amount).startsWith('0.'))",fieldPath=".roles",message="gpu-amount must be a whole number of MIG slices in each role with a gpuProfile, its own or that of the task"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.roles.all(r, !has(r.gpuProfile) && !has(self.gpuProfile) || !has(r.gpuMemory) && !has(self.gpuMemory))",fieldPath=".roles",message="gpuMemory must be left out of the task and of each role with a gpuProfile: the profile says how much memory a MIG slice has"
// +kubebuilder:validation:XValidation:rule="has(self.priority) == has(oldSelf.priority) && (!has(self.priority) || self.priority == oldSelf.priority) || has(oldSelf.suspend) && oldSelf.suspend",fieldPath=".priority",message="is immutable while the task is not suspended: set suspend to true first, or delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.queue) == has(oldSelf.queue) && (!has(self.queue) || self.queue == oldSelf.queue) || has(oldSelf.suspend) && oldSelf.suspend",fieldPath=".queue",message="is immutable while the task is not suspended: set suspend to true first, or delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.gpuMemory) == has(oldSelf.gpuMemory) && (!has(self.gpuMemory) || self.gpuMemory == oldSelf.gpuMemory || string(self.gpuMemory) == oldSelf.gpuMemory || self.gpuMemory == string(oldSelf.gpuMemory))",fieldPath=".gpuMemory",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.nodePool) == has(oldSelf.nodePool) && (!has(self.nodePool) || self.nodePool == oldSelf.nodePool)",fieldPath=".nodePool",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="self.replicas == oldSelf.replicas || has(self.maxReplicas) || has(self.completions)",fieldPath=".replicas",message="is immutable without maxReplicas and completions: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.maxReplicas) == has(oldSelf.maxReplicas) && (!has(self.maxReplicas) || self.maxReplicas == oldSelf.maxReplicas)",fieldPath=".maxReplicas",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.completions) == has(oldSelf.completions) && (!has(self.completions) || self.completions == oldSelf.completions)",fieldPath=".completions",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.backoffLimitPerIndex) == has(oldSelf.backoffLimitPerIndex) && (!has(self.backoffLimitPerIndex) || self.backoffLimitPerIndex == oldSelf.backoffLimitPerIndex)",fieldPath=".backoffLimitPerIndex",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.roles) == has(oldSelf.roles) && (!has(self.roles) || self.roles.map(r, r.name) == oldSelf.roles.map(r, r.name))",fieldPath=".roles",message="the roles and their order are immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || !has(oldSelf.roles) || self.roles == oldSelf.roles || has(oldSelf.suspend) && oldSelf.suspend",fieldPath=".roles",message="the templates are immutable while the task is not suspended: set suspend to true first, or delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.successPolicy) == has(oldSelf.successPolicy) && (!has(self.successPolicy) || self.successPolicy == oldSelf.successPolicy)",fieldPath=".successPolicy",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) == has(oldSelf.minAvailable) && (!has(self.minAvailable) || self.minAvailable == oldSelf.minAvailable)",fieldPath=".minAvailable",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.topology) == has(oldSelf.topology) && (!has(self.topology) || self.topology == oldSelf.topology)",fieldPath=".topology",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="!has(self.minAvailable) || self.minAvailable <= self.replicas",fieldPath=".minAvailable",message="must not be greater than spec.replicas, the number of Pods of the task"
// +kubebuilder:validation:XValidation:rule="!has(self.maxReplicas) || self.replicas <= self.maxReplicas",fieldPath=".replicas",message="must not be greater than spec.maxReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.maxReplicas) || has(self.minAvailable)",fieldPath=".maxReplicas",message="needs minAvailable, the minimum number of Pods that the task can run with"
// +kubebuilder:validation:XValidation:rule="!has(self.completions) || !has(self.minAvailable) && !has(self.maxReplicas) && !has(self.topology)",fieldPath=".completions",message="can't be combined with minAvailable, maxReplicas and topology: the Pods of an array run independently of each other"
// +kubebuilder:validation:XValidation:rule="!has(self.completions) || self.replicas <= 1000",fieldPath=".replicas",message="must be at most 1000 in an array"
// +kubebuilder:validation:XValidation:rule="!has(self.completions) || self.onLostPod == 'Replace'",fieldPath=".onLostPod",message="RestartTask can't be combined with completions: the Pods of an array run independently of each other"
// +kubebuilder:validation:XValidation:rule="!has(self.completions) || !has(self.failureRules) || self.failureRules.all(r, r.action != 'RestartTask')",fieldPath=".failureRules",message="the action RestartTask can't be combined with completions: the Pods of an array run independently of each other"
// +kubebuilder:validation:XValidation:rule="!has(self.backoffLimitPerIndex) || has(self.completions)",fieldPath=".backoffLimitPerIndex",message="needs completions"
// +kubebuilder:validation:XValidation:rule="!has(self.maxFailedIndexes) || has(self.backoffLimitPerIndex)",fieldPath=".maxFailedIndexes",message="needs backoffLimitPerIndex"
// +kubebuilder:validation:XValidation:rule="!has(self.maxFailedIndexes) || !has(self.completions) || self.maxFailedIndexes <= self.completions || oldSelf.hasValue() && has(oldSelf.value().maxFailedIndexes) && self.maxFailedIndexes == oldSelf.value().maxFailedIndexes",fieldPath=".maxFailedIndexes",message="must not be greater than completions, the number of indexes",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="has(self.backoffLimitPerIndex) || !has(self.failureRules) || self.failureRules.all(r, r.action != 'FailIndex')",fieldPath=".failureRules",message="the action FailIndex needs backoffLimitPerIndex"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.roles.all(r, !has(r.failureRules) || r.failureRules.all(f, f.action != 'FailIndex'))",fieldPath=".roles",message="the action FailIndex needs backoffLimitPerIndex, which can't be combined with roles"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.replicas == 1",fieldPath=".replicas",message="must be left out of a task with roles: each role has its own"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || !has(self.minAvailable) && !has(self.maxReplicas) && !has(self.completions)",fieldPath=".roles",message="can't be combined with minAvailable, maxReplicas and completions: all Pods of all roles start together"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.roles.map(r, r.replicas).sum() <= 4096",fieldPath=".roles",message="must have at most 4096 replicas together"
// +kubebuilder:validation:XValidation:rule="!has(self.successPolicy) || self.successPolicy.rules.all(s, !has(s.role) || has(self.roles) && self.roles.exists(r, r.name == s.role))",fieldPath=".successPolicy.rules",message="each role must be one of spec.roles"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.successPolicy) || self.successPolicy.rules.all(s, !has(s.succeededIndexes) || (has(s.role) ? (has(self.roles) ? self.roles.filter(r, r.name == s.role).map(r, r.replicas) : []) : [has(self.roles) ? self.roles.map(r, r.replicas).sum() : has(self.completions) ? self.completions : has(self.maxReplicas) ? self.maxReplicas : self.replicas]).all(pods, s.succeededIndexes.replace('-', ',').split(',').all(n, int(n) < pods)))",fieldPath=".successPolicy.rules",message="each index in succeededIndexes must be less than the number of Pods of the role, or of the task: indexes begin with 0",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.successPolicy) || self.successPolicy.rules.all(s, !has(s.succeededCount) || (has(s.role) ? (has(self.roles) ? self.roles.filter(r, r.name == s.role).map(r, r.replicas) : []) : [has(self.roles) ? self.roles.map(r, r.replicas).sum() : has(self.completions) ? self.completions : has(self.maxReplicas) ? self.maxReplicas : self.replicas]).all(pods, s.succeededCount <= pods))",fieldPath=".successPolicy.rules",message="succeededCount must not be greater than the number of Pods of the role, or of the task: so many can't succeed",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="has(self.template) == has(oldSelf.template) && (!has(self.template) || self.template == oldSelf.template) || has(oldSelf.suspend) && oldSelf.suspend",fieldPath=".template",message="is immutable while the task is not suspended: set suspend to true first, or delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.dependsOn) == has(oldSelf.dependsOn) && (!has(self.dependsOn) || self.dependsOn == oldSelf.dependsOn)",fieldPath=".dependsOn",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="self.rendezvous == oldSelf.rendezvous",fieldPath=".rendezvous",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="self.failurePolicy == oldSelf.failurePolicy",fieldPath=".failurePolicy",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.failureRules) == has(oldSelf.failureRules) && (!has(self.failureRules) || self.failureRules == oldSelf.failureRules)",fieldPath=".failureRules",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="self.onLostPod == oldSelf.onLostPod",fieldPath=".onLostPod",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.checkpoint) == has(oldSelf.checkpoint) && (!has(self.checkpoint) || self.checkpoint == oldSelf.checkpoint) || has(oldSelf.suspend) && oldSelf.suspend",fieldPath=".checkpoint",message="is immutable while the task is not suspended: set suspend to true first, or delete the task and recreate it"
type GPUTaskSpec struct {
	// memory is the main memory of each Pod, as a Kubernetes quantity of bytes
	// with its unit, for example "16Gi", from 4Mi to 1Pi. It is both request and
	// limit of the task's container. Default: none, unless the template or the
	// namespace's LimitRange sets one. Immutable.
	// +optional
	// +kubebuilder:validation:Type=""
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 4194304 && self <= 1125899906842624 : isQuantity(self) && quantity(self).compareTo(quantity('4Mi')) >= 0 && quantity(self).compareTo(quantity('1Pi')) <= 0",message="must be a quantity from 4Mi to 1Pi with its unit, for example \"16Gi\""
	Memory string `json:"memory,omitempty"`

	// cpu is the number of CPU cores of each Pod, as a Kubernetes quantity, for
	// example 8 or "500m" (half a core), greater than 0 and at most 100k. It is both request
	// and limit of the task's container. Default: none, unless the template or
	// the namespace's LimitRange sets one. Immutable.
	// +optional
	// +kubebuilder:validation:Type=""
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 && self <= 100000 : isQuantity(self) && quantity(self).compareTo(quantity('0')) > 0 && quantity(self).compareTo(quantity('100k')) <= 0",message="must be a quantity of CPU cores greater than 0 and at most 100k, for example \"8\" or \"500m\""
	CPU string `json:"cpu,omitempty"`

	// gpu is the GPU model that the task needs, for example "rtx4090" or
	// "h100-80gb-hbm3": the value of the node label falldio.com/gpu. Pods run
	// only on nodes with exactly this value. "kubectl get nodes -L
	// falldio.com/gpu" lists the models of a cluster. Default: any model.
	// Immutable.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must be a GPU model as in the node label falldio.com/gpu: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, for example \"rtx4090\""
	GPU string `json:"gpu,omitempty"`

	// gpu-amount is the number of GPUs that each Pod gets: a whole number from 1
	// to 9999, all on one node, or a share of one GPU from "0.01" to "0.99" in
	// steps of 0.01, in quotes, for example "0.5". Shares of one
	// GPU never add up to more than the GPU. A Pod is limited to its share only on
	// nodes with NVIDIA's MPS, or, as for memory, with a driver that limits it. Shares need
	// gpu-scheduler: the stock kube-scheduler does
	// not know that shares and whole GPUs are the same cards. With gpuProfile it
	// is a whole number of MIG slices. Default: "1". Immutable.
	// +optional
	// +kubebuilder:validation:Type=""
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:default="1"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 9999 : self.matches('^([1-9][0-9]{0,3}|0[.](0[1-9]|[1-9][0-9]?))$')",message="must be a whole number of GPUs from \"1\" to \"9999\", or a share of one GPU from \"0.01\" to \"0.99\" with at most two decimals, for example \"2\" or \"0.5\""
	GPUAmount string `json:"gpu-amount,omitempty"`

	// gpuProfile asks for MIG slices instead of whole GPUs: the profile of a slice in NVIDIA's notation,
	// for example "1g.10gb". Each Pod gets gpu-amount slices of it, all on one node; they may be
	// of different GPUs. The GPUs must have been divided into such slices before:
	// "kubectl describe nodes" lists them as falldio.com/mig-1g.10gb. It can't be combined
	// with gpuMemory. Default: whole GPUs, or a share of one. Immutable.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]?g[.][1-9][0-9]{0,3}gb([+][a-z0-9]+)*$')",message="must be a MIG profile in NVIDIA's notation, as nvidia-smi lists it: compute slices and memory, for example \"1g.10gb\" or \"1g.10gb+me\""
	GPUProfile string `json:"gpuProfile,omitempty"`

	// priority is the name of the PriorityClass of the task's Pods, for example
	// "gpu-high-priority". When GPUs are short, Pods of a higher priority are
	// served first and may preempt Pods of a lower one. Default: the template's
	// PriorityClass, else the cluster's default. Immutable while the task is not suspended.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a PriorityClass, for example \"gpu-high-priority\""
	Priority string `json:"priority,omitempty"`

	// queue is the GPUQueue that the task waits in and whose GPUs it uses, for example "research". It
	// becomes the label falldio.com/queue of the Pods. A task of a queue that does not exist, or that
	// does not accept the namespace, waits. Default: the template's label falldio.com/queue,
	// else that of the namespace, else the only queue that accepts the namespace, else none.
	// Immutable while the task is not suspended.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a GPUQueue: lower-case letters, digits and '-', beginning and ending with a letter or digit, for example \"research\""
	Queue string `json:"queue,omitempty"`

	// gpuMemory is the minimum memory of each GPU, as a quantity of
	// bytes with its unit, from 256Mi to 16Ti. It is compared with the node label
	// falldio.com/gpu-memory (MiB). Cards hold a little less than their name
	// says in binary units: an H100 "80GB" has 81559Mi, so ask for "80G", not
	// for "80Gi". Default: any. Immutable.
	// +optional
	// +kubebuilder:validation:Type=""
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 268435456 && self <= 17592186044416 : isQuantity(self) && quantity(self).compareTo(quantity('256Mi')) >= 0 && quantity(self).compareTo(quantity('16Ti')) <= 0",message="must be a quantity from 256Mi to 16Ti with its unit, for example \"40G\""
	GPUMemory string `json:"gpuMemory,omitempty"`

	// nodePool is the node pool that the task runs in: the value of the node
	// label falldio.com/node-pool. Default: any node. Immutable.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must be a node pool as in the node label falldio.com/node-pool: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
	NodePool string `json:"nodePool,omitempty"`

	// replicas is the number of Pods of the task, 1 to 4096. A task of more
	// than one Pod is a gang: it runs when minAvailable of its Pods run, and
	// succeeds when all have succeeded. One Pod bears the task's name; a gang's
	// Pods are named <task>-<index>, with the index from 0 in the label
	// falldio.com/index. Default: 1. Immutable, unless maxReplicas or completions is set.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	Replicas *int32 `json:"replicas,omitempty"`

	// minAvailable is how many Pods of a gang must start together, from 1 to
	// replicas. The task runs while at least as many run; the others join when
	// they find room. Starting together needs gpu-scheduler: the stock
	// kube-scheduler binds Pods one by one. Default: all replicas. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	MinAvailable *int32 `json:"minAvailable,omitempty"`

	// maxReplicas makes a gang elastic: replicas can be changed while the task runs, up to this
	// number, also with "kubectl scale". The Pods with the highest indexes are removed first. The
	// framework, such as torchrun, tells programs about members that join and leave. It needs minAvailable.
	// Default: replicas is immutable. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// completions makes the task an array and is the number of Pods that have to succeed, 1 to 10000. Each
	// has an index from 0 in the label falldio.com/index and the environment variable
	// JOB_COMPLETION_INDEX. replicas, at most 1000, is the number of Pods that run at the same time.
	// They run independently of each other, each as soon as there is room for it. replicas can be
	// changed at any time, also with "kubectl scale". A Pod that fails is restarted on its own. Default: no array.
	// Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Completions *int32 `json:"completions,omitempty"`

	// backoffLimitPerIndex is how many failures of each Pod of an array are retried before its
	// index fails, 0 to 1000. The other indexes continue; at the end, the task fails if any index
	// has failed. backoffLimit then has no effect. Default: only backoffLimit applies, and
	// the task fails as a whole. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	BackoffLimitPerIndex *int32 `json:"backoffLimitPerIndex,omitempty"`

	// maxFailedIndexes is how many indexes of an array may fail; one more, and the task fails at once. It
	// needs backoffLimitPerIndex. Default: any number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	MaxFailedIndexes *int32 `json:"maxFailedIndexes,omitempty"`

	// roles are the kinds of Pods of a gang that is made of several: a launcher and workers, or
	// actors and learners. All Pods of all roles start together or not at all. Within a role, ranks
	// and indexes are as in a gang of its own. The first Pod of the first role is the leader; all
	// Pods have its address in the environment variable GPUTASK_LEADER_ADDR. Fields that a role
	// leaves out are taken from this spec. Default: all Pods are equal. Immutable, except for the
	// templates while the task is suspended.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Roles []Role `json:"roles,omitempty"`

	// successPolicy lets the task succeed before all its Pods have succeeded, for example as soon as
	// its launcher has. Default: all Pods must succeed. Immutable.
	// +optional
	SuccessPolicy *SuccessPolicy `json:"successPolicy,omitempty"`

	// topology asks for a gang whose Pods are near each other in the network.
	// It needs gpu-scheduler, and has no effect on a task of one Pod. Default:
	// anywhere. Immutable.
	// +optional
	Topology *Topology `json:"topology,omitempty"`

	// rendezvous says how the Pods of a gang find each other. Service: each Pod has a name in DNS,
	// <pod>.<task>, from a headless Service that the task owns, and the environment variables from
	// which PyTorch, JAX, DeepSpeed and others learn their rank and where rank 0 is, such as
	// MASTER_ADDR, RANK and WORLD_SIZE. Variables of the template win. None: neither. A task of one Pod
	// needs neither. Default: Service. Immutable.
	// +optional
	// +kubebuilder:default=Service
	Rendezvous RendezvousMode `json:"rendezvous,omitempty"`

	// template is the Pod that the task runs, as in a Job: image, command,
	// environment, volumes, annotations and so on. Its container named
	// "gpu-task", or its only container, gets the GPUs, cpu and memory of this
	// spec. Fields of this spec win over the template. The restart policy is
	// Never, or OnFailure if the template says so: then the kubelet restarts the
	// container, and backoffLimit counts that, too, as long as the Pod exists. Without a
	// container it gets one with the image of the controller's --default-image
	// flag. Default: such a Pod. Immutable while the task is not suspended.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.containers) || size(self.spec.containers) <= 1 || self.spec.containers.exists(c, c.name == 'gpu-task')",fieldPath=".spec.containers",message="one of several containers must be named \"gpu-task\": it is the one that gets the GPUs"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(c, c.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",fieldPath=".spec.containers",message="every container's name must consist of lower-case letters, digits and '-', beginning and ending with a letter or digit, for example \"gpu-task\""
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy in ['', 'Never', 'OnFailure']",fieldPath=".spec.restartPolicy",message="must be Never or OnFailure: tasks run to completion"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.nodeName) || self.spec.nodeName == ''",fieldPath=".spec.nodeName",message="must be empty: it would bypass the scheduler; use nodeSelector with the label kubernetes.io/hostname"
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// dependsOn lists up to 32 tasks of the same namespace that this task waits
	// for before its Pods are created, even for those that do not exist yet.
	// Once the task has started, dependencies have no effect. Default:
	// none. Immutable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	DependsOn []Dependency `json:"dependsOn,omitempty"`

	// failurePolicy says what is restarted when a Pod of a gang fails:
	// RestartTask, all Pods of the task, or RestartPod, the failed Pod only.
	// failureRules take precedence. It has no effect on an array, where only the failed Pod is
	// restarted. Default: RestartTask. Immutable.
	// +optional
	// +kubebuilder:default=RestartTask
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// failureRules say what to do when Pods end in particular ways; the first rule that matches is
	// applied. Default: none, so that failurePolicy and onLostPod apply. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	FailureRules []FailureRule `json:"failureRules,omitempty"`

	// onLostPod says what to do when a running gang loses a Pod that has not failed: with its node,
	// by preemption or eviction, or because somebody deleted it. Replace: only that Pod is replaced,
	// for gangs that can wait for a member. RestartTask: all Pods start again, for gangs
	// whose members would hang. Neither counts as a failure. Default: Replace. Immutable.
	// +optional
	// +kubebuilder:default=Replace
	OnLostPod LostPodPolicy `json:"onLostPod,omitempty"`

	// backoffLimit is how many failures are retried before the
	// task fails, 0 to 1000. The waiting time before a new start doubles from
	// 10 s up to 10 min (flags of the controller). Default: 6.
	// +optional
	// +kubebuilder:default=6
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// activeDeadlineSeconds is the number of seconds after status.startTime at
	// which a task that has not finished is stopped and fails. Time spent
	// waiting for GPUs counts, time spent suspended or waiting for
	// dependencies does not. Default: no deadline.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// maxRuntimeSeconds is how many seconds the task may be Running, in all its runs together;
	// then it is stopped and fails. Time spent waiting for GPUs, for dependencies or suspended
	// does not count. When Pods are created, the rest of that time is in their annotation
	// falldio.com/max-runtime-seconds. Users who may update GPUQueues can raise it at any time, others
	// only while the task is suspended. Default: only the limit of the task's GPUQueue.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MaxRuntimeSeconds *int64 `json:"maxRuntimeSeconds,omitempty"`

	// ttlSecondsAfterFinished is the number of seconds after which a finished
	// task is deleted together with its Pods; 0 deletes it at once. A task that
	// another one still waits for is kept until that one has started. Default:
	// a finished task is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// rescheduling says whether and how often the rescheduler may move the task's
	// Pods to other nodes. Default: it may.
	// +optional
	Rescheduling *Rescheduling `json:"rescheduling,omitempty"`

	// unreachableNodeTimeoutSeconds is how long a node must have been unreachable before the task's
	// terminating Pods on it are deleted by force and replaced. They may still be running
	// then: set it only if the task tolerates that a Pod runs twice for a while. Default:
	// --default-unreachable-node-timeout-seconds of gpu-controller, which by default sets no limit:
	// such a Pod is replaced when its node is back, is deleted, or has the taint
	// node.kubernetes.io/out-of-service.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	UnreachableNodeTimeoutSeconds *int32 `json:"unreachableNodeTimeoutSeconds,omitempty"`

	// startTimeoutSeconds is how long the task's Pods may take to start once they have nodes: to mount
	// volumes, pull images and run init containers. A Pod that takes longer gives its GPUs back and is
	// replaced after a pause that doubles each time, on another node if there is one. A gang does so as a whole,
	// unless it was running already. After 20 times in a row the task fails. Default:
	// --default-start-timeout-seconds of gpu-controller, which by default sets no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	StartTimeoutSeconds *int32 `json:"startTimeoutSeconds,omitempty"`

	// checkpoint says how the task saves its work before the rescheduler moves it or gpu-scheduler
	// preempts it. Default: it is stopped at once. Immutable while the task is not suspended.
	// +optional
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`

	// suspend stops the task until it is resumed: true deletes its running
	// Pods, false recreates them. Pods that have succeeded stay. Default:
	// false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`
}

// Topology is how near each other the Pods of a gang should be.
type Topology struct {
	// level names a level of the cluster's topology, for example "leaf": the
	// whole gang is placed in one domain of that level, such as the nodes of one
	// leaf switch. The configuration of gpu-scheduler says which levels there
	// are, and by which node label each is known.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a level of gpu-scheduler's configuration: lower-case letters, digits and '-', beginning and ending with a letter or digit, for example \"leaf\""
	Level string `json:"level"`

	// mode says what happens when the gang fits into no single domain now:
	// Required, it waits; Preferred, it is placed anyway.
	// Default: Preferred.
	// +optional
	// +kubebuilder:default=Preferred
	Mode TopologyMode `json:"mode,omitempty"`
}

// RendezvousMode says how the Pods of a gang find each other: the values are RendezvousService and
// RendezvousNone.
//
// +kubebuilder:validation:Enum=Service;None
type RendezvousMode string

// How the Pods of a gang find each other.
const (
	RendezvousService RendezvousMode = "Service"
	RendezvousNone    RendezvousMode = "None"
)

// TopologyMode says whether a topology is a condition or a wish: the values are
// TopologyRequired and TopologyPreferred.
//
// +kubebuilder:validation:Enum=Required;Preferred
type TopologyMode string

// Checkpoint says how a task saves its work before it is moved or preempted.
type Checkpoint struct {
	// mode is Signal, PreStop or None. Signal: the Pods get the annotation
	// falldio.com/checkpoint-requested, which their containers read in the file
	// /etc/gputask/checkpoint-requested, and are stopped when the annotation
	// falldio.com/last-checkpoint of the task or the Pod is not earlier, or when the time is up.
	// PreStop: the Pods save their work when they are stopped, in a preStop hook or upon SIGTERM,
	// and have the time for it. None: they are stopped at once.
	// +required
	Mode CheckpointMode `json:"mode"`

	// timeoutSeconds is how long that may take, 1 to 3600. Default: 60.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// CheckpointMode says how a task saves its work: the values are CheckpointSignal,
// CheckpointPreStop and CheckpointNone.
//
// +kubebuilder:validation:Enum=Signal;PreStop;None
type CheckpointMode string

// How a task saves its work before it is stopped.
const (
	CheckpointSignal  CheckpointMode = "Signal"
	CheckpointPreStop CheckpointMode = "PreStop"
	CheckpointNone    CheckpointMode = "None"
)

// Rescheduling says whether a task may be moved. A move stops the task's Pods and
// starts them on other nodes: work since the last checkpoint is lost.
type Rescheduling struct {
	// policy is Allowed or Never. Default: Allowed.
	// +optional
	// +kubebuilder:default=Allowed
	Policy ReschedulingPolicy `json:"policy,omitempty"`

	// minRuntimeSeconds is how long the task's Pods must have run, since they
	// started for the last time, before they may be moved. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinRuntimeSeconds *int32 `json:"minRuntimeSeconds,omitempty"`

	// maxMoves is how often the task may be moved in all. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxMoves *int32 `json:"maxMoves,omitempty"`
}

// ReschedulingPolicy says whether a task may be moved: the values are
// ReschedulingAllowed and ReschedulingNever.
//
// +kubebuilder:validation:Enum=Allowed;Never
type ReschedulingPolicy string

// Whether a task may be moved.
const (
	ReschedulingAllowed ReschedulingPolicy = "Allowed"
	ReschedulingNever   ReschedulingPolicy = "Never"
)

// Dependency is another task that a task waits for.
type Dependency struct {
	// name is the name of a GPUTask in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=58
	Name string `json:"name"`

	// condition is what to wait for: Running, the other task runs (or has
	// succeeded); Succeeded, it has succeeded; Finished, it has
	// succeeded or failed. Default: Succeeded.
	// +optional
	// +kubebuilder:default=Succeeded
	Condition DependencyCondition `json:"condition,omitempty"`

	// onFailure says what happens when the other task fails, so that the
	// condition can no longer be met: Fail, this task fails as well; Ignore,
	// this task starts anyway. It has no effect with the condition
	// Finished. Default: Fail.
	// +optional
	// +kubebuilder:default=Fail
	OnFailure DependencyFailureAction `json:"onFailure,omitempty"`
}

// DependencyCondition is what a dependency must have reached.
//
// +kubebuilder:validation:Enum=Running;Succeeded;Finished
type DependencyCondition string

// The conditions that a task can wait for.
const (
	DependencyRunning   DependencyCondition = "Running"
	DependencySucceeded DependencyCondition = "Succeeded"
	DependencyFinished  DependencyCondition = "Finished"
)

// DependencyFailureAction is what a failed dependency does to its dependents.
//
// +kubebuilder:validation:Enum=Fail;Ignore
type DependencyFailureAction string

// What a failed dependency does to its dependents.
const (
	DependencyFail   DependencyFailureAction = "Fail"
	DependencyIgnore DependencyFailureAction = "Ignore"
)

// FailurePolicy is what is restarted after a failure.
//
// +kubebuilder:validation:Enum=RestartTask;RestartPod
type FailurePolicy string

// What is restarted after a failure.
const (
	RestartTask FailurePolicy = "RestartTask"
	RestartPod  FailurePolicy = "RestartPod"
)

// FailureRule says what to do when a Pod ends in a particular way. Exactly one of onExitCodes,
// onPodConditions and onReasons is set.
//
// +kubebuilder:validation:XValidation:rule="(has(self.onExitCodes) ? 1 : 0) + (has(self.onPodConditions) ? 1 : 0) + (has(self.onReasons) ? 1 : 0) == 1",message="exactly one of onExitCodes, onPodConditions and onReasons must be set"
type FailureRule struct {
	// action is what to do. Ignore: the Pod is replaced, and the failure does not count.
	// RestartPod and RestartTask: the Pod, or all Pods of the task, start again, and the failure
	// counts. FailIndex: the Pod's index fails without further restarts; it needs
	// backoffLimitPerIndex. FailTask: the task fails.
	// +required
	Action FailureAction `json:"action"`

	// onExitCodes matches a Pod of which a container has ended with one of these exit codes.
	// +optional
	OnExitCodes *ExitCodes `json:"onExitCodes,omitempty"`

	// onPodConditions matches a Pod that has one of these conditions, for example DisruptionTarget.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	OnPodConditions []PodConditionPattern `json:"onPodConditions,omitempty"`

	// onReasons matches a Pod that has ended for one of these reasons, or of which a container has,
	// for example OOMKilled.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	OnReasons []string `json:"onReasons,omitempty"`
}

// FailureAction is what to do about a failure.
//
// +kubebuilder:validation:Enum=Ignore;RestartPod;RestartTask;FailIndex;FailTask
type FailureAction string

// What to do about a failure.
const (
	ActionIgnore      FailureAction = "Ignore"
	ActionRestartPod  FailureAction = "RestartPod"
	ActionRestartTask FailureAction = "RestartTask"
	ActionFailIndex   FailureAction = "FailIndex"
	ActionFailTask    FailureAction = "FailTask"
)

// ExitCodes are exit codes of containers.
//
// +kubebuilder:validation:XValidation:rule="self.operator != 'In' || self.values.all(v, v != 0)",fieldPath=".values",message="must not contain 0 with the operator In: a container with that exit code has not failed"
type ExitCodes struct {
	// containerName is the container that they are of: one of the template's containers and init
	// containers, or gpu-task if the template has none. Default: any, those that something else adds to the Pods, too.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ContainerName string `json:"containerName,omitempty"`

	// operator is In, one of values, or NotIn, none of them. Exit code 0 never matches.
	// +required
	Operator ExitCodesOperator `json:"operator"`

	// values are exit codes: with In, other than 0.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=255
	Values []int32 `json:"values"`
}

// ExitCodesOperator is In or NotIn.
//
// +kubebuilder:validation:Enum=In;NotIn
type ExitCodesOperator string

// How an exit code relates to the values.
const (
	ExitCodeIn    ExitCodesOperator = "In"
	ExitCodeNotIn ExitCodesOperator = "NotIn"
)

// PodConditionPattern matches a condition of a Pod.
type PodConditionPattern struct {
	// type is the condition's type.
	// +required
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:rule="self.matches('^([-a-z0-9.]+/)?[A-Za-z0-9][-A-Za-z0-9_.]*$')",message="must be the type of a condition of Pods, for example \"DisruptionTarget\""
	Type string `json:"type"`

	// status is the condition's status: True, False or Unknown. Default: True.
	// +optional
	// +kubebuilder:default="True"
	// +kubebuilder:validation:Enum=True;False;Unknown
	Status corev1.ConditionStatus `json:"status,omitempty"`
}

// LostPodPolicy is what to do when a gang loses a Pod.
//
// +kubebuilder:validation:Enum=Replace;RestartTask
type LostPodPolicy string

// What to do when a gang loses a Pod.
const (
	LostPodReplace     LostPodPolicy = "Replace"
	LostPodRestartTask LostPodPolicy = "RestartTask"
)

// GPUTaskList is a list of GPUTasks.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type GPUTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []GPUTask `json:"items"`
}
