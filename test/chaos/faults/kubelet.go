// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"falldio.github.io/gpu-controller/test/chaos/check"
	"falldio.github.io/gpu-controller/test/chaos/schedule"
)

const (
	notReady    = `{"metadata": {"annotations": {"simulation.falldio.com/not-ready": "true"}}}`
	readyAgain  = `{"metadata": {"annotations": {"simulation.falldio.com/not-ready": null}}}`
	noMemory    = `{"status": {"conditions": [{"type": "MemoryPressure", "status": "True", "reason": "KubeletHasInsufficientMemory", "message": "kubelet has insufficient memory available"}]}}`
	memoryAgain = `{"status": {"conditions": [{"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory", "message": "kubelet has sufficient memory available"}]}}`
)

// reboot has a node be not ready for a while. Its kubelet finds what has become of the containers when it is back.
func (i *Injector) reboot(ctx context.Context, fault *schedule.Fault) (action, error) {
	mend := func(ctx context.Context) error {
		if err := i.endPods(ctx, fault); err != nil {
			return err
		}
		return i.patchNode(ctx, fault.Target, readyAgain)
	}
	return mend, i.patchNode(ctx, fault.Target, notReady)
}

// shutDown has a node stop its Pods, and then be not ready for a while.
func (i *Injector) shutDown(ctx context.Context, fault *schedule.Fault) (action, error) {
	mend := func(ctx context.Context) error { return i.patchNode(ctx, fault.Target, readyAgain) }
	return mend, errors.Join(i.endPods(ctx, fault), i.patchNode(ctx, fault.Target, notReady))
}

// useUpMemory has a node evict its Pods, and say for a while why.
func (i *Injector) useUpMemory(ctx context.Context, fault *schedule.Fault) (action, error) {
	mend := func(ctx context.Context) error { return i.patchNodeStatus(ctx, fault.Target, memoryAgain) }
	return mend, errors.Join(i.patchNodeStatus(ctx, fault.Target, noMemory), i.endPods(ctx, fault))
}

func (i *Injector) patchNodeStatus(ctx context.Context, node, patch string) error {
	_, err := i.Kube.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

// endPods ends all Pods that run on a node, as a kubelet does whose node is rebooted, shuts down, or has no memory
// left.
func (i *Injector) endPods(ctx context.Context, fault *schedule.Fault) error {
	pods, err := i.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + fault.Target})
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for n := range pods.Items {
		pod := &pods.Items[n]
		group.Go(func() error { return i.endPod(groupCtx, pod, fault) })
	}
	return group.Wait()
}

func (i *Injector) endPod(ctx context.Context, pod *corev1.Pod, fault *schedule.Fault) error {
	client := i.Kube.CoreV1().Pods(pod.Namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current, err := client.Get(ctx, pod.Name, metav1.GetOptions{})
		isGone := apierrors.IsNotFound(err) || err == nil && (current.UID != pod.UID || current.DeletionTimestamp != nil)
		if isGone || err == nil && current.Status.Phase != corev1.PodRunning {
			return nil
		}
		if err != nil {
			return err
		}
		end(&current.Status, fault, time.Now())
		_, err = client.UpdateStatus(ctx, current, metav1.UpdateOptions{})
		return err
	})
}

// end writes into the status of a Pod that runs how it has ended, in the form of kubelet 1.37 and containerd 2.
func end(status *corev1.PodStatus, fault *schedule.Fault, now time.Time) {
	status.Phase = corev1.PodFailed
	setFalse(status, now)
	switch fault.Kind {
	case check.FaultShutdown:
		endContainers(status, &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error", FinishedAt: metav1.NewTime(now)})
		byKubelet(status, "Terminated", "Pod was terminated in response to imminent node shutdown.", now)
	case check.FaultPressure:
		endContainers(status, &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", FinishedAt: metav1.NewTime(now)})
		byKubelet(status, "Evicted", "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Ki. ", now)
	default:
		if fault.Way == schedule.WayNotFound {
			endContainers(status, unknown("The container could not be located when the pod was terminated"))
			return
		}
		endContainers(status, &corev1.ContainerStateTerminated{ExitCode: 255, Reason: "Unknown", FinishedAt: metav1.NewTime(now)})
	}
}

// setFalse sets the conditions of a Pod that has failed.
func setFalse(status *corev1.PodStatus, now time.Time) {
	for n := range status.Conditions {
		condition := &status.Conditions[n]
		switch condition.Type {
		case corev1.PodReady, corev1.ContainersReady:
			condition.Reason = "PodFailed"
		case corev1.PodReadyToStartContainers:
		default:
			continue
		}
		condition.Status, condition.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(now)
	}
}

// unknown is the end of a container that the kubelet does not find.
func unknown(message string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown", Message: message}
}

// endContainers ends the containers of a Pod that run. Of one that the kubelet does not find, it knows only that it
// ran.
func endContainers(status *corev1.PodStatus, how *corev1.ContainerStateTerminated) {
	for n := range status.ContainerStatuses {
		container := &status.ContainerStatuses[n]
		if container.State.Running == nil {
			continue
		}
		ended := *how
		if ended.FinishedAt.IsZero() {
			before := unknown("The container could not be located when the pod was deleted.  The container used to be Running")
			container.RestartCount, container.LastTerminationState = container.RestartCount+1, corev1.ContainerState{Terminated: before}
		} else {
			ended.StartedAt, ended.ContainerID = container.State.Running.StartedAt, container.ContainerID
		}
		container.Ready, container.Started = false, new(bool)
		container.State = corev1.ContainerState{Terminated: &ended}
	}
}

// byKubelet says that the kubelet has stopped the Pod.
func byKubelet(status *corev1.PodStatus, reason, message string, now time.Time) {
	status.Reason, status.Message = reason, message
	status.Conditions = append(status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: message, LastTransitionTime: metav1.NewTime(now),
	})
}
