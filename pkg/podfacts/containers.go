// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Role is what a container is for in its Pod.
type Role int

const (
	// Work is that of the container that does the Pod's work, and has its GPUs.
	Work Role = iota
	// Companion is that of any other container that starts with it, whoever added it. It does not end by itself, as a
	// rule.
	Companion
	// Sidecar is that of an initialization container that runs on beside the others. The kubelet ends it after them.
	Sidecar
	// Init is that of a container that has to end before the others start.
	Init
)

// AnnotationDefaultContainer names the container of a Pod that kubectl reads logs from. Programs that add containers to
// Pods set it to the one that was there before.
const AnnotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// WorkContainer returns the name of the container that does a Pod's work: the one named gpu-task, the one that the Pod
// says, the first that asks for GPUs, or the first. It is "" for a Pod without containers.
func WorkContainer(pod *corev1.Pod) string {
	containers := pod.Spec.Containers
	if len(containers) == 1 {
		return containers[0].Name
	}
	for _, is := range []func(*corev1.Container) bool{
		func(c *corev1.Container) bool { return c.Name == v1.ContainerName },
		func(c *corev1.Container) bool { return c.Name == pod.Annotations[AnnotationDefaultContainer] },
		asksForGPUs,
		func(*corev1.Container) bool { return true },
	} {
		for i := range containers {
			if is(&containers[i]) {
				return containers[i].Name
			}
		}
	}
	return ""
}

func asksForGPUs(c *corev1.Container) bool {
	for name := range c.Resources.Limits {
		if _, slices := v1.SliceProfile(name); slices || name == v1.ResourceGPU || name == v1.ResourceGPUPercent || name == v1.ResourceNVIDIAGPU {
			return true
		}
	}
	return len(c.Resources.Claims) > 0
}

// RoleOf returns what a container is for, by its name.
func RoleOf(pod *corev1.Pod, container string) Role {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == container {
			if IsSidecar(c) {
				return Sidecar
			}
			return Init
		}
	}
	if container == WorkContainer(pod) {
		return Work
	}
	return Companion
}

// IsSidecar reports whether a container for initialization runs on beside the others.
func IsSidecar(initContainer *corev1.Container) bool {
	return initContainer.RestartPolicy != nil && *initContainer.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// StatusOf returns the status of a container, of whatever kind; nil if there is none.
func StatusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		if at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == container }); at >= 0 {
			return &statuses[at]
		}
	}
	return nil
}

// EverStarted reports whether a container of a Pod has ever started, one for initialization included, or was tried to:
// a command that does not exist is the Pod's own fault. A Pod that its node refuses has no statuses; if it is given up
// later, the kubelet makes up ends for containers that never were.
func EverStarted(pod *corev1.Pod) bool { return anyStatus(pod, HasStarted) }

// HasStarted reports whether a container has ever started, or was tried to.
func HasStarted(status *corev1.ContainerStatus) bool {
	ended := status.State.Terminated
	return status.State.Running != nil || status.LastTerminationState.Terminated != nil || status.RestartCount > 0 ||
		ended != nil && (ended.Reason != reasonStatusUnknown || !ended.StartedAt.IsZero())
}

// WasRestarted reports whether a container runs for at least the second time: only then it matters when it started.
func WasRestarted(status *corev1.ContainerStatus) bool {
	return status.RestartCount > 0 && status.State.Running != nil
}

// End is how a container has ended.
type End struct {
	Container string
	*corev1.ContainerStateTerminated
}

// Known reports whether the container ended with this exit code. If its node was rebooted, or has lost the container
// otherwise, nobody knows with which.
func (e End) Known() bool { return isKnown(e.ContainerStateTerminated) }

// Ends returns how the containers of a Pod have ended, those for initialization first.
func Ends(pod *corev1.Pod) []End {
	var ends []End
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if ended := statuses[i].State.Terminated; ended != nil {
				ends = append(ends, End{Container: statuses[i].Name, ContainerStateTerminated: ended})
			}
		}
	}
	return ends
}

// Failure returns the end for which a Pod has failed: that of the work, or of the first other container that ended with
// an error. A sidecar's does not count: it is stopped after the others, and may take that for an error.
func Failure(pod *corev1.Pod) (failure End, found bool) {
	work := WorkContainer(pod)
	for _, end := range Ends(pod) {
		switch {
		case end.ExitCode == 0 || RoleOf(pod, end.Container) == Sidecar:
		case end.Container == work:
			return end, true
		case !found:
			failure, found = end, true
		}
	}
	return failure, found
}

// WorkEnd returns how the container has ended that does a Pod's work; nil if it has not. Others of the Pod may still
// run.
func WorkEnd(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if status := StatusOf(pod, WorkContainer(pod)); status != nil {
		return status.State.Terminated
	}
	return nil
}

// What stands for the end of a container of which nobody knows how it ended: the kubelet has not found it any more,
// with exit code 137, or containerd has not found its process, with exit code 255. A program's own end has other
// reasons, whatever its exit code.
const (
	reasonStatusUnknown = "ContainerStatusUnknown"
	reasonUnknown       = "Unknown"
)

func isKnown(end *corev1.ContainerStateTerminated) bool {
	return end.Reason != reasonStatusUnknown && end.Reason != reasonUnknown
}

// endIsUnknown reports whether nobody knows how the containers of a Pod that has failed ended. If the work's end is
// known, or that of another container with an error, that is why the Pod has failed.
func endIsUnknown(pod *corev1.Pod) bool {
	if status := StatusOf(pod, WorkContainer(pod)); status != nil && isLost(status) {
		return true
	}
	failed := slices.ContainsFunc(Ends(pod), func(end End) bool {
		return end.Known() && end.ExitCode != 0 && RoleOf(pod, end.Container) != Sidecar
	})
	return !failed && anyStatus(pod, func(status *corev1.ContainerStatus) bool {
		return isLost(status) && RoleOf(pod, status.Name) != Sidecar // a sidecar does not decide
	})
}

// isLost reports whether nobody knows how a container ended. Of one that it does not find, the kubelet first says that
// it waits to be created again.
func isLost(status *corev1.ContainerStatus) bool {
	end := status.State.Terminated
	if status.State.Waiting != nil {
		end = status.LastTerminationState.Terminated
	}
	return end != nil && !isKnown(end)
}

func isRunning(status *corev1.ContainerStatus) bool { return status.State.Running != nil }

// anyStatus reports whether something is true of a container that started with the Pod, or before.
func anyStatus(pod *corev1.Pod, is func(*corev1.ContainerStatus) bool) bool {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if is(&statuses[i]) {
				return true
			}
		}
	}
	return false
}

// Waiting is what a container waits for.
type Waiting struct{ Container, Reason, Message string }

// WaitsFor returns what the first container of a Pod waits for that waits for something in particular: an image that
// can't be pulled, the next try after a crash. It is nil if none does: what the kubelet says of containers whose turn
// has not come is no cause.
func WaitsFor(pod *corev1.Pod) *Waiting {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			waiting := statuses[i].State.Waiting
			if waiting != nil && waiting.Reason != "" && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
				return &Waiting{Container: statuses[i].Name, Reason: waiting.Reason, Message: waiting.Message}
			}
		}
	}
	return nil
}
