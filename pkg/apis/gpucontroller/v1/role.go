// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import corev1 "k8s.io/api/core/v1"

// Role is one kind of Pods of a task, such as its launcher, its workers or its learners. Fields that a
// role leaves out are taken from the task's spec.
//
// +kubebuilder:validation:XValidation:rule="has(self.memory) == has(oldSelf.memory) && (!has(self.memory) || self.memory == oldSelf.memory || string(self.memory) == oldSelf.memory || self.memory == string(oldSelf.memory))",fieldPath=".memory",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.cpu) == has(oldSelf.cpu) && (!has(self.cpu) || self.cpu == oldSelf.cpu || string(self.cpu) == oldSelf.cpu || self.cpu == string(oldSelf.cpu))",fieldPath=".cpu",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.gpu) == has(oldSelf.gpu) && (!has(self.gpu) || self.gpu == oldSelf.gpu)",fieldPath=".gpu",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.gpu__dash__amount) == has(oldSelf.gpu__dash__amount) && (!has(self.gpu__dash__amount) || self.gpu__dash__amount == oldSelf.gpu__dash__amount || string(self.gpu__dash__amount) == oldSelf.gpu__dash__amount || self.gpu__dash__amount == string(oldSelf.gpu__dash__amount))",fieldPath="['gpu-amount']",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.gpuProfile) == has(oldSelf.gpuProfile) && (!has(self.gpuProfile) || self.gpuProfile == oldSelf.gpuProfile)",fieldPath=".gpuProfile",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.gpuMemory) == has(oldSelf.gpuMemory) && (!has(self.gpuMemory) || self.gpuMemory == oldSelf.gpuMemory || string(self.gpuMemory) == oldSelf.gpuMemory || self.gpuMemory == string(oldSelf.gpuMemory))",fieldPath=".gpuMemory",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.nodePool) == has(oldSelf.nodePool) && (!has(self.nodePool) || self.nodePool == oldSelf.nodePool)",fieldPath=".nodePool",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="self.replicas == oldSelf.replicas",fieldPath=".replicas",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.failurePolicy) == has(oldSelf.failurePolicy) && (!has(self.failurePolicy) || self.failurePolicy == oldSelf.failurePolicy)",fieldPath=".failurePolicy",message="is immutable: delete the task and recreate it"
// +kubebuilder:validation:XValidation:rule="has(self.failureRules) == has(oldSelf.failureRules) && (!has(self.failureRules) || self.failureRules == oldSelf.failureRules)",fieldPath=".failureRules",message="is immutable: delete the task and recreate it"
type Role struct {
	// name is the role's name, up to 20 lower-case letters, digits and '-'. Its Pods are named
	// <task>-<role>-<index>, with the index within the role, from 0, in the label
	// falldio.com/role-index, and have the name in the label falldio.com/role.
	// +required
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must consist of lower-case letters, digits and '-', beginning and ending with a letter or digit, for example \"worker\""
	Name string `json:"name"`

	// replicas is the number of Pods of the role. Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	Replicas *int32 `json:"replicas,omitempty"`

	// gpu-amount is the number of GPUs of each Pod of the role, as in the task's spec, or "0" for none.
	// Default: that of the task.
	// +optional
	// +kubebuilder:validation:Type=""
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 9999 : self.matches('^(0|[1-9][0-9]{0,3}|0[.](0[1-9]|[1-9][0-9]?))$')",message="must be a whole number of GPUs from \"0\" to \"9999\", or a share of one GPU from \"0.01\" to \"0.99\" with at most two decimals, for example \"2\" or \"0.5\""
	GPUAmount string `json:"gpu-amount,omitempty"`

	// gpuProfile is the profile of the MIG slices that the role asks for, as in the task's spec. Default:
	// that of the task; a role for whole GPUs must therefore be in a task without one.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]?g[.][1-9][0-9]{0,3}gb([+][a-z0-9]+)*$')",message="must be a MIG profile in NVIDIA's notation, as nvidia-smi lists it: compute slices and memory, for example \"1g.10gb\" or \"1g.10gb+me\""
	GPUProfile string `json:"gpuProfile,omitempty"`

	// gpu is the GPU model that the role needs. Default: that of the task.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must be a GPU model as in the node label falldio.com/gpu: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, for example \"rtx4090\""
	GPU string `json:"gpu,omitempty"`

	// gpuMemory is the minimum memory of each GPU. Default: that of the task.
	// +optional
	// +kubebuilder:validation:Type=""
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 268435456 && self <= 17592186044416 : isQuantity(self) && quantity(self).compareTo(quantity('256Mi')) >= 0 && quantity(self).compareTo(quantity('16Ti')) <= 0",message="must be a quantity from 256Mi to 16Ti with its unit, for example \"40G\""
	GPUMemory string `json:"gpuMemory,omitempty"`

	// cpu is the number of CPU cores of each Pod of the role. Default: that of the task.
	// +optional
	// +kubebuilder:validation:Type=""
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 && self <= 100000 : isQuantity(self) && quantity(self).compareTo(quantity('0')) > 0 && quantity(self).compareTo(quantity('100k')) <= 0",message="must be a quantity of CPU cores greater than 0 and at most 100k, for example \"8\" or \"500m\""
	CPU string `json:"cpu,omitempty"`

	// memory is the main memory of each Pod of the role. Default: that of the task.
	// +optional
	// +kubebuilder:validation:Type=""
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 4194304 && self <= 1125899906842624 : isQuantity(self) && quantity(self).compareTo(quantity('4Mi')) >= 0 && quantity(self).compareTo(quantity('1Pi')) <= 0",message="must be a quantity from 4Mi to 1Pi with its unit, for example \"16Gi\""
	Memory string `json:"memory,omitempty"`

	// nodePool is the node pool that the role runs in. Default: that of the task.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must be a node pool as in the node label falldio.com/node-pool: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
	NodePool string `json:"nodePool,omitempty"`

	// template is the Pod that the role runs, as in the task's spec. It replaces the task's
	// template as a whole. Default: that of the task. Immutable while the task is not suspended.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.containers) || size(self.spec.containers) <= 1 || self.spec.containers.exists(c, c.name == 'gpu-task')",fieldPath=".spec.containers",message="one of several containers must be named \"gpu-task\": it is the one that gets the GPUs"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.containers) || self.spec.containers.all(c, c.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",fieldPath=".spec.containers",message="every container's name must consist of lower-case letters, digits and '-', beginning and ending with a letter or digit, for example \"gpu-task\""
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy in ['', 'Never', 'OnFailure']",fieldPath=".spec.restartPolicy",message="must be Never or OnFailure: tasks run to completion"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.nodeName) || self.spec.nodeName == ''",fieldPath=".spec.nodeName",message="must be empty: it would bypass the scheduler; use nodeSelector with the label kubernetes.io/hostname"
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// failurePolicy says what is restarted when a Pod of the role fails. Default: that of the task.
	// +optional
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// failureRules say what to do when Pods of the role end in particular ways. They replace those of
	// the task. Default: those of the task.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	FailureRules []FailureRule `json:"failureRules,omitempty"`
}

// SuccessPolicy says when a task succeeds before all its Pods have succeeded.
type SuccessPolicy struct {
	// rules: the task succeeds as soon as one of them is met. Pods that are still running are stopped.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	Rules []SuccessRule `json:"rules"`
}

// SuccessRule is a set of Pods of which enough must succeed.
//
// +kubebuilder:validation:XValidation:rule="!has(self.succeededIndexes) || !has(self.succeededCount) || self.succeededCount <= self.succeededIndexes.split(',').map(r, r.contains('-') ? int(r.split('-')[1]) - int(r.split('-')[0]) + 1 : 1).sum()",fieldPath=".succeededCount",message="must not be greater than the number of indexes in succeededIndexes: so many can't succeed"
type SuccessRule struct {
	// role is the role of the Pods. Default: all Pods of the task.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	Role string `json:"role,omitempty"`

	// succeededIndexes are the indexes of the Pods, within the role if there is one, as numbers and
	// ranges in increasing order: "0,2-4". Default: all.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$') && [self.replace('-', ',').split(',').map(n, int(n))].all(bounds, bounds.all(i, n, i == 0 || bounds[i-1] < n))",message="must be numbers and ranges of indexes in increasing order, separated by commas, for example \"0,2-4\""
	SucceededIndexes string `json:"succeededIndexes,omitempty"`

	// succeededCount is how many of these Pods must succeed. Default: all of them.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	SucceededCount *int32 `json:"succeededCount,omitempty"`
}
