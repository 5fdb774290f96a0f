// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// podBuilder builds a Pod with the status that a kubelet writes.
type podBuilder struct{ *corev1.Pod }

// makePod returns a Pod on a node, with the containers gpu-task and proxy.
func makePod() podBuilder {
	created, started := ago(time.Hour), ago(time.Hour)
	return podBuilder{&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train", CreationTimestamp: created},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "gpu-task"}, {Name: "proxy"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, StartTime: &started},
	}}
}

func (b podBuilder) with(change func(*corev1.Pod)) podBuilder { change(b.Pod); return b }

func (b podBuilder) phase(phase corev1.PodPhase) podBuilder {
	return b.with(func(p *corev1.Pod) { p.Status.Phase = phase })
}

// failed gives the Pod a reason and a message: "" for one that the kubelet has not ended itself.
func (b podBuilder) failed(reason, message string) podBuilder {
	return b.phase(corev1.PodFailed).with(func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = reason, message })
}

// rejected gives the Pod the status of one that its kubelet did not admit: nothing but this.
func (b podBuilder) rejected(reason, message string) podBuilder {
	return b.failed(reason, "Pod was rejected: "+message)
}

func (b podBuilder) disrupted(reason string) podBuilder {
	return b.with(func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason})
	})
}

func (b podBuilder) unbound() podBuilder {
	return b.with(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.StartTime = "", nil })
}

func (b podBuilder) initContainer(name string, sidecar bool, state corev1.ContainerState) podBuilder {
	return b.with(func(p *corev1.Pod) {
		container := corev1.Container{Name: name}
		if sidecar {
			always := corev1.ContainerRestartPolicyAlways
			container.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, container)
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{Name: name, State: state})
	})
}

// states sets the states of the containers gpu-task and proxy.
func (b podBuilder) states(states ...corev1.ContainerState) podBuilder {
	return b.with(func(p *corev1.Pod) {
		p.Status.ContainerStatuses = nil
		for i := range states {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: p.Spec.Containers[i].Name, State: states[i]})
		}
	})
}

// wasRunning has the kubelet remember that the containers ran: it could not find them any more.
func (b podBuilder) wasRunning() podBuilder {
	return b.with(func(p *corev1.Pod) {
		for i := range p.Status.ContainerStatuses {
			status := &p.Status.ContainerStatuses[i]
			status.LastTerminationState, status.RestartCount = notFound(), 1
		}
	})
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(time.Hour)}}
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

func ended(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: ago(time.Hour), FinishedAt: ago(time.Minute)}}
}

// notFound is what the kubelet writes of a container that it does not find: without times.
func notFound() corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated",
	}}
}

// notStarted is what containerd writes of a container that can't start: it began with the epoch.
func notStarted() corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 128, Reason: "StartError", StartedAt: metav1.NewTime(time.Unix(0, 0)), FinishedAt: ago(time.Minute),
		Message: `failed to create shim task: OCI runtime create failed: exec: "pyhton": executable file not found in $PATH`,
	}}
}
