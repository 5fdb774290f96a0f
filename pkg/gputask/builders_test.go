// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

// now is the time of all tests.
var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

// taskBuilder builds a GPUTask as the API server stores it, defaults filled in.
type taskBuilder struct{ *v1.GPUTask }

func makeTask(name string) taskBuilder {
	return taskBuilder{&v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "task-uid", Generation: 1},
		Spec: v1.GPUTaskSpec{
			GPUAmount: "1", Replicas: ptr.To[int32](1), FailurePolicy: v1.RestartTask, BackoffLimit: ptr.To[int32](6),
		},
	}}
}

func (b taskBuilder) with(change func(*v1.GPUTask)) taskBuilder { change(b.GPUTask); return b }

func (b taskBuilder) replicas(n int32) taskBuilder {
	return b.with(func(t *v1.GPUTask) { t.Spec.Replicas = &n })
}

func (b taskBuilder) minAvailable(n int32) taskBuilder {
	return b.with(func(t *v1.GPUTask) { t.Spec.MinAvailable = &n })
}

func (b taskBuilder) policy(p v1.FailurePolicy) taskBuilder {
	return b.with(func(t *v1.GPUTask) { t.Spec.FailurePolicy = p })
}

func (b taskBuilder) backoffLimit(n int32) taskBuilder {
	return b.with(func(t *v1.GPUTask) { t.Spec.BackoffLimit = &n })
}

func (b taskBuilder) suspended() taskBuilder {
	return b.with(func(t *v1.GPUTask) { t.Spec.Suspend = new(true) })
}

func (b taskBuilder) dependsOn(dependencies ...v1.Dependency) taskBuilder {
	return b.with(func(t *v1.GPUTask) { t.Spec.DependsOn = dependencies })
}

func (b taskBuilder) phase(phase v1.GPUTaskPhase) taskBuilder {
	return b.with(func(t *v1.GPUTask) { t.Status.Phase = phase })
}

func (b taskBuilder) started(since time.Duration) taskBuilder {
	return b.with(func(t *v1.GPUTask) { t.Status.StartTime = ago(since) })
}

func (b taskBuilder) restarted(times int32, since time.Duration) taskBuilder {
	return b.with(func(t *v1.GPUTask) {
		t.Status.Restarts, t.Status.LastFailureTime = times, ago(since)
	})
}

func (b taskBuilder) condition(kind string, status metav1.ConditionStatus, reason string) taskBuilder {
	return b.with(func(t *v1.GPUTask) {
		t.Status.Conditions = append(t.Status.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: reason, LastTransitionTime: *ago(time.Minute),
		})
	})
}

// pod returns the Pod that the controller creates for a member.
func (b taskBuilder) pod(index int, attempt int32) podBuilder {
	pod, err := NewPod(b.GPUTask, index, attempt, PodDefaults{Image: "cuda"})
	if err != nil {
		panic(err) // the builder made a task that can't be
	}
	pod.UID = "pod-uid-" + pod.UID
	pod.CreationTimestamp = *ago(time.Minute)
	pod.Status.Phase = corev1.PodPending
	return podBuilder{pod}
}

type podBuilder struct{ *corev1.Pod }

func (b podBuilder) with(change func(*corev1.Pod)) podBuilder { change(b.Pod); return b }

func (b podBuilder) running(node string) podBuilder {
	return b.with(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning })
}

func (b podBuilder) ended(phase corev1.PodPhase, exitCode int32, since time.Duration) podBuilder {
	return b.with(func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase = "node-1", phase
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:  p.Spec.Containers[0].Name,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, FinishedAt: *ago(since)}},
		}}
	})
}

func (b podBuilder) succeeded() podBuilder { return b.ended(corev1.PodSucceeded, 0, time.Second) }

func (b podBuilder) failed(since time.Duration) podBuilder {
	return b.ended(corev1.PodFailed, 1, since)
}

// deletedAgo marks the Pod as deleted with a grace period of 30 s.
func (b podBuilder) deletedAgo(since time.Duration) podBuilder {
	return b.with(func(p *corev1.Pod) {
		p.DeletionGracePeriodSeconds = ptr.To[int64](30)
		p.DeletionTimestamp = ago(since - 30*time.Second)
	})
}

func (b podBuilder) condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) podBuilder {
	return b.with(func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	})
}

func (b podBuilder) unschedulable(message string) podBuilder {
	return b.condition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, message)
}

// saysWhy has gpu-scheduler publish why the Pod waits, and kube-scheduler say it.
func (b podBuilder) saysWhy(reason *v1.WaitingReason) podBuilder {
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, v1.AnnotationWaitingReason, waitingreason.Encode(reason))
	return b.unschedulable("0/7 nodes are available: " + waitingreason.Sentence(reason) + ". preemption: none")
}

func pods(builders ...podBuilder) []*corev1.Pod {
	list := make([]*corev1.Pod, 0, len(builders))
	for _, b := range builders {
		list = append(list, b.Pod)
	}
	return list
}

// created returns the Pods that a plan creates.
func created(plan *Plan) []*corev1.Pod {
	var built []*corev1.Pod
	for i := range plan.Create {
		pod, err := plan.Create[i].Build()
		if err != nil {
			panic(err) // Decide has built one like it
		}
		built = append(built, pod)
	}
	return built
}

// podIDs returns the names of Pods with their attempts, for comparison.
func podIDs(pods []*corev1.Pod) []string {
	var ids []string
	for _, pod := range pods {
		ids = append(ids, pod.Name+"@"+pod.Labels[v1.LabelAttempt])
	}
	return ids
}

func lookup(tasks ...taskBuilder) Lookup {
	return func(name string) *v1.GPUTask {
		for _, task := range tasks {
			if task.Name == name {
				return task.GPUTask
			}
		}
		return nil
	}
}

var testConfig = Config{
	Pods:    PodDefaults{Image: "cuda"},
	Backoff: Backoff{Base: 10 * time.Second, Max: 10 * time.Minute},
}

func input(task taskBuilder, pods []*corev1.Pod) Input {
	return Input{Task: task.GPUTask, Pods: pods, HasService: true, Lookup: lookup(), Now: now, Config: testConfig}
}
