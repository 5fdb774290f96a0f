// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The API of Kueue.
const (
	Group   = "kueue.x-k8s.io"
	Version = "v1beta2"
	// Workloads and the others are the names of resources.
	Workloads               = "workloads"
	ResourceFlavors         = "resourceflavors"
	WorkloadPriorityClasses = "workloadpriorityclasses"
	AdmissionChecks         = "admissionchecks"
)

// Labels and annotations of Kueue.
const (
	// LabelQueue of a GPUTask names the LocalQueue that it is submitted to.
	LabelQueue = Group + "/queue-name"
	// LabelPriorityClass of a GPUTask names its WorkloadPriorityClass.
	LabelPriorityClass = Group + "/priority-class"
	// LabelMaxExecTime of a GPUTask is for how many seconds it may be admitted.
	LabelMaxExecTime = Group + "/max-exec-time-seconds"
	// LabelJobUID of a Workload is the UID of the object that it is for.
	LabelJobUID = Group + "/job-uid"
	// LabelPodSet of a Pod is its pod set in the Workload.
	LabelPodSet = Group + "/podset"
	// AnnotationWorkload of a Pod names its Workload.
	AnnotationWorkload = Group + "/workload"
	// topologyGate keeps a Pod from being scheduled until Kueue has chosen its topology domain.
	topologyGate = Group + "/topology"
	// topologyUnconstrained marks a Pod that takes any domain.
	topologyUnconstrained = Group + "/podset-unconstrained-topology"
)

// Conditions of a Workload.
const (
	QuotaReserved = "QuotaReserved"
	Admitted      = "Admitted"
	Evicted       = "Evicted"
	Requeued      = "Requeued"
	PodsReady     = "PodsReady"
	Finished      = "Finished"
	// Active of an AdmissionCheck says that a controller answers it.
	Active = "Active"
)

// Reasons of these conditions.
const (
	reasonPending      = "Pending"
	reasonNoReserve    = "NoReservation"
	reasonPreempted    = "Preempted"
	reasonNodeFailures = "NodeFailures"
	reasonWaitForStart = "WaitForStart"
	reasonWaitRecovery = "WaitForRecovery"
	reasonStarted      = "Started"
	reasonRecovered    = "Recovered"
	reasonSucceeded    = "Succeeded"
	reasonFailed       = "Failed"
)

// CheckState is what an admission check says.
type CheckState string

// What an admission check says. Retry has the Workload give its quota back and wait its turn again.
const (
	CheckPending CheckState = "Pending"
	CheckReady   CheckState = "Ready"
	CheckRetry   CheckState = "Retry"
)

// Resource returns one of the resources of Kueue's API.
func Resource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: name}
}

// Workload asks for quota.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              WorkloadSpec   `json:"spec"`
	Status            WorkloadStatus `json:"status,omitzero"`
}

// WorkloadSpec is what is asked for.
type WorkloadSpec struct {
	PodSets                     []PodSet          `json:"podSets"`
	QueueName                   string            `json:"queueName,omitempty"`
	PriorityClassRef            *PriorityClassRef `json:"priorityClassRef,omitempty"`
	Priority                    *int32            `json:"priority,omitempty"`
	Active                      *bool             `json:"active,omitempty"`
	MaximumExecutionTimeSeconds *int32            `json:"maximumExecutionTimeSeconds,omitempty"`
}

// PodSet is a number of equal Pods.
type PodSet struct {
	Name     string                 `json:"name"`
	Template corev1.PodTemplateSpec `json:"template"`
	Count    int32                  `json:"count"`
	// MinCount is with how many Pods the Workload can do.
	MinCount *int32 `json:"minCount,omitempty"`
}

// PriorityClassRef names a PriorityClass of Kubernetes or a WorkloadPriorityClass.
type PriorityClassRef struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

// WorkloadStatus is what Kueue and the admission checks have decided.
type WorkloadStatus struct {
	Conditions      []metav1.Condition    `json:"conditions,omitempty"`
	Admission       *WorkloadAdmission    `json:"admission,omitempty"`
	AdmissionChecks []AdmissionCheckState `json:"admissionChecks,omitempty"`
	ReclaimablePods []ReclaimablePods     `json:"reclaimablePods,omitempty"`
	// AccumulatedPastExecutionTimeSeconds is for how long the Workload was admitted before.
	AccumulatedPastExecutionTimeSeconds *int32 `json:"accumulatedPastExecutionTimeSeconds,omitempty"`
}

// WorkloadAdmission is the quota that was reserved.
type WorkloadAdmission struct {
	ClusterQueue      string             `json:"clusterQueue"`
	PodSetAssignments []PodSetAssignment `json:"podSetAssignments"`
}

// PodSetAssignment is the quota that was reserved for a pod set.
type PodSetAssignment struct {
	Name string `json:"name"`
	// Flavors are the ResourceFlavors of which it was reserved, by resource.
	Flavors map[corev1.ResourceName]string `json:"flavors,omitempty"`
	// Count is for how many Pods it was reserved.
	Count              *int32          `json:"count,omitempty"`
	TopologyAssignment *map[string]any `json:"topologyAssignment,omitempty"`
}

// AdmissionCheckState is what an admission check says about a Workload.
type AdmissionCheckState struct {
	Name                string         `json:"name"`
	State               CheckState     `json:"state"`
	LastTransitionTime  metav1.Time    `json:"lastTransitionTime"`
	Message             string         `json:"message"`
	RequeueAfterSeconds *int32         `json:"requeueAfterSeconds,omitempty"`
	RetryCount          *int32         `json:"retryCount,omitempty"`
	PodSetUpdates       []PodSetUpdate `json:"podSetUpdates,omitempty"`
}

// PodSetUpdate is what an admission check adds to the Pods of a pod set.
type PodSetUpdate struct {
	Name         string              `json:"name"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Annotations  map[string]string   `json:"annotations,omitempty"`
	NodeSelector map[string]string   `json:"nodeSelector,omitempty"`
	Tolerations  []corev1.Toleration `json:"tolerations,omitempty"`
}

// ReclaimablePods is how many Pods of a pod set need their quota no more.
type ReclaimablePods struct {
	Name  string `json:"name"`
	Count int32  `json:"count"`
}

// ResourceFlavor is a kind of nodes.
type ResourceFlavor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeLabels  map[string]string   `json:"nodeLabels,omitempty"`
		Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	} `json:"spec"`
}

// AdmissionCheck is a check that ClusterQueues may ask for, and who answers it.
type AdmissionCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ControllerName string `json:"controllerName"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}
