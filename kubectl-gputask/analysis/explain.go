// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/verdict"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

// Explanation is why a task is in its current state, and what would change that.
type Explanation struct {
	Task *v1.GPUTask `json:"task"`
	// Since is when it entered its phase, as far as its conditions show.
	Since metav1.Time `json:"since"`
	// Verdict is the one that everybody shows. What else is known is below, and does not contradict it.
	Verdict verdict.Verdict `json:"verdict"`
	// WaitsFor are reasons for waiting other than missing room: dependencies, a
	// suspension, Pods that can't be created.
	WaitsFor []string `json:"waitsFor,omitempty"`
	// Waiting is how many of its Total Pods wait for a node.
	Waiting int `json:"waiting"`
	Total   int `json:"total"`
	// Priority is the priority of its Pods.
	Priority int32 `json:"priority"`
	// InQueue is its GPUQueue; nil if it is in none. EstimatedStart is when gpu-scheduler expects it to start; nil
	// if it does not wait, or that is not known.
	InQueue        *QueuePlace       `json:"inQueue,omitempty"`
	EstimatedStart *v1.StartEstimate `json:"estimatedStart,omitempty"`
	// WaitingReason is why its Pods have no nodes, as their scheduler has said it; nil if it has said nothing. Only
	// gpu-scheduler says more than a message.
	WaitingReason *v1.WaitingReason `json:"waitingReason,omitempty"`
	// Position is its position, from 1, among Queue tasks of its queue, or of those in none, that wait for GPUs and may
	// start once there are some; 0 if it does not wait, or may not. Ahead are those before it, in order. What waits of
	// other controllers counts, too.
	Position int      `json:"position,omitempty"`
	Queue    int      `json:"queue,omitempty"`
	Ahead    []string `json:"ahead,omitempty"`
	// Outlook is nil if it does not wait for room.
	Outlook *Outlook `json:"outlook,omitempty"`
	// Plans are the MovePlans for it that have not finished.
	Plans []PlanState `json:"plans,omitempty"`
	// Uses are the nodes and GPUs that its Pods hold.
	Uses []Place `json:"uses,omitempty"`
	// Judged is true for a running task for which it is known whether it may be moved;
	// Immovable is the reason why not, and empty if it may be.
	Judged    bool   `json:"-"`
	Immovable string `json:"immovable,omitempty"`
	// Warnings are what Events say about its Pods, if they were read.
	Warnings []PodWarning `json:"warnings,omitempty"`
	// Problems are objects of the cluster that could not be parsed.
	Problems []string `json:"problems,omitempty"`
}

// PlanState summarizes a MovePlan.
type PlanState struct {
	Name     string           `json:"name"`
	Phase    v1.MovePlanPhase `json:"phase"`
	Approved bool             `json:"approved"`
	Message  string           `json:"message,omitempty"`
}

// Explain returns why a task is in its current state. found is false if there is no such
// task.
func (v *View) Explain(namespace, name string) (e *Explanation, found bool) {
	index := slices.IndexFunc(v.Tasks, func(task clusterview.Task) bool { return task.Namespace == namespace && task.Name == name })
	if index < 0 {
		return nil, false
	}
	task := &v.Tasks[index]
	e = &Explanation{Task: task.GPUTask, Since: since(task.GPUTask), Total: gputask.Total(task.GPUTask), WaitsFor: v.otherReasons(task)}
	e.WaitingReason, e.Verdict = waitingreason.Of(task.Pods...), verdictOn(v.queues, task.GPUTask, task.Pods)
	v.addUses(e, task)
	if task.Status.Phase == v1.PhaseRunning && !isForeign(task.GPUTask) {
		e.Judged, e.Immovable = true, v.Immovable(task)
	}
	v.addQueue(e, task)
	if len(task.Pods) > 0 {
		e.InQueue = v.queuePlace(task.Pods[0])
	}
	v.addPlans(e, task)
	for _, problem := range v.Problems {
		e.Problems = append(e.Problems, problem.Error())
	}
	return e, true
}

// Alone explains a task by its own status and Pods only, for users who may not list the
// rest of the cluster.
func Alone(task *v1.GPUTask, pods []*corev1.Pod) *Explanation {
	e := &Explanation{
		Task: task, Since: since(task), Total: gputask.Total(task), WaitsFor: unreachableNodes(task), WaitingReason: waitingreason.Of(pods...),
		Verdict: verdictOn(nil, task, pods),
	}
	if task.Status.Phase == v1.PhasePending && e.Verdict.IsServed() {
		e.EstimatedStart = task.Status.EstimatedStart
	}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && !podfacts.Ended(pod) {
			e.Uses = append(e.Uses, Place{Pod: pod.Name, Node: pod.Spec.NodeName})
		}
	}
	return e
}

// since returns when the conditions that determine the phase last changed.
func since(task *v1.GPUTask) metav1.Time {
	latest := task.CreationTimestamp
	for _, kind := range []string{v1.ConditionRunning, v1.ConditionSuspended, v1.ConditionSucceeded, v1.ConditionFailed} {
		if condition := apimeta.FindStatusCondition(task.Status.Conditions, kind); condition != nil && latest.Before(&condition.LastTransitionTime) {
			latest = condition.LastTransitionTime
		}
	}
	return latest
}

// otherReasons returns what a task waits for besides room.
func (v *View) otherReasons(task *clusterview.Task) []string {
	if gputask.IsFinished(task.GPUTask) {
		return nil
	}
	var list []string
	switch {
	case gputask.SuspensionRequested(task.GPUTask):
		list = append(list, "it is suspended: kubectl gputask resume "+task.Name)
	case task.Status.Phase == v1.PhaseSuspended: // a queueing system holds it
		list = append(list, strings.TrimPrefix(task.Status.Message, "waiting for "))
	}
	if gputask.WaitsForDependencies(task.GPUTask) {
		list = append(list, v.dependencies(task)...)
	}
	if refused := apimeta.FindStatusCondition(task.Status.Conditions, v1.ConditionPodsCreated); refused != nil && refused.Status == metav1.ConditionFalse {
		list = append(list, fmt.Sprintf("Pods can't be created: %s", refused.Message))
	}
	list = append(list, unreachableNodes(task.GPUTask)...)
	if unscheduled := countUnscheduled(task); task.Status.Phase == v1.PhaseRunning && unscheduled > 0 {
		list = append(list, fmt.Sprintf("nodes for %d of %d Pods; it runs without them", unscheduled, gputask.Total(task.GPUTask)))
	}
	if task.Status.Phase == v1.PhasePending && len(list) == 0 && len(task.Pods) == 0 && task.Status.Message != "" {
		list = append(list, task.Status.Message)
	}
	if task.Status.Phase == "" {
		list = append(list, "gpu-controller has not processed it yet")
	}
	return list
}

// unreachableNodes says which node does not answer, on which a Pod should have stopped.
func unreachableNodes(task *v1.GPUTask) []string {
	reachable := apimeta.FindStatusCondition(task.Status.Conditions, v1.ConditionNodesReachable)
	if reachable == nil || reachable.Status != metav1.ConditionFalse {
		return nil
	}
	return []string{reachable.Message}
}

// countUnscheduled returns how many Pods of a task wait for a node.
func countUnscheduled(task *clusterview.Task) int {
	count := 0
	for _, pod := range task.Pods {
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !podfacts.Ended(pod) {
			count++
		}
	}
	return count
}

func (v *View) dependencies(task *clusterview.Task) []string {
	var list []string
	for _, dependency := range task.Spec.DependsOn {
		condition := cmp.Or(dependency.Condition, v1.DependencySucceeded)
		index := slices.IndexFunc(v.Tasks, func(other clusterview.Task) bool {
			return other.Namespace == task.Namespace && other.Name == dependency.Name
		})
		if index < 0 {
			list = append(list, fmt.Sprintf("task %s, which does not exist, to be %s", dependency.Name, condition))
			continue
		}
		if other := v.Tasks[index].GPUTask; !gputask.DependencyMet(&dependency, other) {
			list = append(list, fmt.Sprintf("task %s, which is %s, to be %s", dependency.Name, cmp.Or(other.Status.Phase, "new"), condition))
		}
	}
	return list
}

// addUses adds which cards the Pods have.
func (v *View) addUses(e *Explanation, task *clusterview.Task) {
	for _, pod := range task.Pods {
		if pod.Spec.Priority != nil {
			e.Priority = *pod.Spec.Priority
		}
		if pod.Spec.NodeName == "" || podfacts.Ended(pod) {
			continue
		}
		running, _ := v.Cluster.Running(string(pod.UID))
		cards := v.Cards[pod.Spec.NodeName]
		e.Uses = append(e.Uses, Place{Pod: pod.Name, Node: pod.Spec.NodeName, GPUs: cards.Numbers(running.GPUs), Slices: slicesIn(running.Others)})
	}
	slices.SortFunc(e.Uses, func(a, b Place) int { return ComparePodNames(a.Pod, b.Pod) })
}

// addQueue adds the position of a task that waits for room, and its outlook. What is not served has neither.
func (v *View) addQueue(e *Explanation, task *clusterview.Task) {
	said := verdictOnWaiting(v.queues, task.GPUTask, task.Pods)
	closed := e.WaitingReason != nil && e.WaitingReason.Reason == v1.WaitsForClosedNodes
	if !said.IsServed() && said.Kind != v1.TaskNeverFits && !closed {
		return
	}
	waiting := v.Waiting()
	own := slices.IndexFunc(waiting, func(w clusterview.Waiting) bool {
		return slices.ContainsFunc(task.Pods, func(pod *corev1.Pod) bool { return slices.Contains(w.Pods, pod) })
	})
	if own < 0 {
		if task.Status.Phase == v1.PhasePending && said.IsServed() { // a place is being made for it
			e.EstimatedStart = EstimatedStart(task.GPUTask, task.Pods)
			v.addLine(e, task)
		}
		return
	}
	w := &waiting[own]
	e.Waiting, e.Priority = len(w.Pods), w.Priority
	e.Outlook = outlookFor(&said, e.WaitingReason, v.Outlook(w))
	if !said.IsServed() {
		return
	}
	e.EstimatedStart = EstimatedStart(task.GPUTask, w.Pods)
	v.addLine(e, task)
}

// addLine adds the position of a task in its queue.
func (v *View) addLine(e *Explanation, task *clusterview.Task) {
	own, ahead, count := v.inLine(task)
	if own == nil {
		return
	}
	for _, entry := range ahead {
		e.Ahead = append(e.Ahead, entry.Namespace+"/"+entry.Name)
	}
	e.Position, e.Queue, e.EstimatedStart = own.Position, count, own.EstimatedStart
}

// addPlans adds the unfinished MovePlans for a task.
func (v *View) addPlans(e *Explanation, task *clusterview.Task) {
	for _, plan := range v.Plans {
		isForTask := plan.Spec.For != nil && plan.Spec.For.Namespace == task.Namespace && plan.Spec.For.Name == task.Name
		if isForTask && plan.Status.Phase != v1.PlanDone && plan.Status.Phase != v1.PlanAborted {
			e.Plans = append(e.Plans, PlanState{Name: plan.Name, Phase: plan.Status.Phase, Approved: plan.Spec.Approved, Message: plan.Status.Message})
		}
	}
}
