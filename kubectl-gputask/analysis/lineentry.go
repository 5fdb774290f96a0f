// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/pkg/verdict"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

// gathered are the Pods of one LineEntry.
type gathered struct {
	kind, namespace, name string
	// task is nil for Pods of other controllers.
	task *v1.GPUTask
	// least is how many Pods start together.
	least int
	// without have no node and may get one; with have one.
	without, with []*corev1.Pod
}

// gather groups the Pods that have not ended by what they belong to.
func gather(objects *LineObjects) []*gathered {
	var list []*gathered
	seen, byKey := map[types.UID]bool{}, map[string]*gathered{}
	for i := range objects.Tasks {
		task := &objects.Tasks[i]
		one := &gathered{kind: KindTask, namespace: task.Namespace, name: task.Name, task: task.GPUTask}
		for _, pod := range task.Pods {
			seen[pod.UID] = true
			one.add(pod)
		}
		list = append(list, one)
	}
	for _, pod := range objects.Pods {
		if seen[pod.UID] || podfacts.Ended(pod) {
			continue
		}
		seen[pod.UID] = true
		identity := identify(pod)
		key := identity.kind + " " + identity.namespace + "/" + identity.name
		if byKey[key] == nil {
			byKey[key] = &identity
			list = append(list, &identity)
		}
		byKey[key].add(pod)
	}
	return list
}

// identify returns what a Pod of another controller belongs to.
func identify(pod *corev1.Pod) gathered {
	if gang, err := snapshot.Gang(pod); err == nil && gang != nil {
		return gathered{kind: KindGang, namespace: pod.Namespace, name: strings.TrimPrefix(gang.Name, pod.Namespace+"/"), least: gang.Min}
	}
	if group, found := snapshot.PodGroupOf(pod); found {
		return gathered{kind: KindGang, namespace: pod.Namespace, name: group.Name, least: 1}
	}
	return gathered{kind: KindPod, namespace: pod.Namespace, name: pod.Name, least: 1}
}

func (g *gathered) add(pod *corev1.Pod) {
	switch {
	case podfacts.Ended(pod):
	case pod.Spec.NodeName != "":
		g.with = append(g.with, pod)
	case pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0:
		g.without = append(g.without, pod)
	}
}

// waiting returns the entry of what can't begin before it gets GPUs.
func (g *gathered) waiting(queues *Queues) (entry LineEntry, waits bool) {
	if !g.wantsToStart() {
		return LineEntry{}, false
	}
	pods := g.without
	if len(g.with)+len(pods) == 0 {
		pods = notCreated(g.task)
	}
	entry, amount := g.entry(queues, pods)
	if amount == 0 {
		return LineEntry{}, false
	}
	entry.EstimatedStart = EstimatedStart(g.task, g.without)
	if reason := waitingreason.Of(pods...); reason != nil {
		entry.Reason, entry.WaitingReason = waitingreason.Sentence(reason), reason
	}
	entry.Verdict = verdictOnWaiting(queues, g.task, pods)
	if !entry.Verdict.IsServed() {
		entry.Refused, entry.EstimatedStart = true, nil
	}
	if entry.Verdict.Cause != "" && (entry.WaitingReason == nil || entry.WaitingReason.Message != entry.Verdict.Cause) {
		entry.Reason, entry.WaitingReason = entry.Verdict.Cause, nil
	}
	entry.job = queueing.Job{
		Key: entry.Namespace + "/" + entry.Name, Queue: entry.Queue, Priority: entry.Priority, Submitted: entry.Since.Time,
		GPUs: float64(amount) / float64(queueing.GPU), Runtime: runtimeOf(queues, entry.Queue, gpuqueue.MaxRuntime(pods[0])),
	}
	entry.asked = queueing.Amounts{cmp.Or(entry.Model, queueing.AnyModel): amount}
	return entry, true
}

// wantsToStart reports whether something has to get GPUs before it runs. The Pods of an array each start by themselves.
func (g *gathered) wantsToStart() bool {
	if g.task == nil {
		return len(g.with) < g.least
	}
	phase := g.task.Status.Phase
	waits := phase == v1.PhasePending || phase == "" || phase == v1.PhaseRunning && gputask.IsArray(g.task)
	return waits && g.task.DeletionTimestamp == nil && !gputask.SuspensionRequested(g.task)
}

// running returns the entry of what holds GPUs.
func (g *gathered) running(queues *Queues, now time.Time) (entry LineEntry, runs bool) {
	entry, amount := g.entry(queues, g.with)
	if amount == 0 {
		return LineEntry{}, false
	}
	entry.Queue, entry.Verdict.Kind = queues.Holder(g.with[0]), verdict.Runs
	since := metav1.NewTime(now)
	for _, pod := range g.with {
		if began := metav1.NewTime(podfacts.FirstStarted(pod)); began.Before(&since) {
			since = began
		}
		entry.Nodes = append(entry.Nodes, pod.Spec.NodeName)
		if at, known := endOfPod(pod); g.task == nil && known && (entry.EndsBy == nil || entry.EndsBy.Time.Before(at)) {
			entry.EndsBy = new(metav1.NewTime(at))
		}
	}
	slices.Sort(entry.Nodes)
	entry.Since, entry.Nodes = since, slices.Compact(entry.Nodes)
	if g.task != nil {
		if at, known := endOfTask(g.task); known {
			entry.EndsBy = new(metav1.NewTime(at))
		}
	}
	return entry, true
}

// entry returns what waiting and running entries have in common, and the GPUs of the Pods.
func (g *gathered) entry(queues *Queues, pods []*corev1.Pod) (LineEntry, queueing.Amount) {
	entry := LineEntry{Kind: g.kind, Namespace: g.namespace, Name: g.name, Pods: len(pods)}
	amount, models := queueing.Amount(0), map[string]bool{}
	for i, pod := range pods {
		one := gpuqueue.Amount(pod)
		if amount += one; one > 0 {
			models[gpuqueue.WantedModel(pod)] = true
		}
		entry.Priority = max(entry.Priority, schedulingv1.PodPriority(pod))
		entry.PriorityClass = cmp.Or(entry.PriorityClass, pod.Spec.PriorityClassName)
		if i == 0 || pod.CreationTimestamp.Before(&entry.Since) {
			entry.Since = pod.CreationTimestamp
		}
	}
	if len(pods) > 0 {
		entry.Queue, entry.pod = queues.Assign(pods[0]).Queue, pods[0].Name
	}
	for model := range models {
		if len(models) == 1 && model != queueing.AnyModel {
			entry.Model = model
		}
	}
	entry.GPUs = amount.String()
	return entry, amount
}

// notCreated returns the Pods that a task would have if they could be created; nil if nothing is known to prevent that.
func notCreated(task *v1.GPUTask) []*corev1.Pod {
	if task == nil || !apimeta.IsStatusConditionFalse(task.Status.Conditions, v1.ConditionPodsCreated) {
		return nil
	}
	imagined, err := NewHypothetical(task, v1.ResourceGPU, func(*corev1.Pod) error { return nil }, task.CreationTimestamp)
	if err != nil {
		return nil
	}
	return imagined.Pods
}

// isOf reports whether an entry is that of a task.
func (e *LineEntry) isOf(task *clusterview.Task) bool {
	return e.Kind == KindTask && e.Namespace == task.Namespace && e.Name == task.Name
}

// Resource returns the name of what waits or runs, as kubectl takes it: "gputask.falldio.com/train". Of a gang it
// is the name of a Pod.
func (e *LineEntry) Resource() string {
	if e.Kind == KindTask {
		return "gputask." + v1.GroupName + "/" + e.Name
	}
	return "pod/" + e.pod
}
