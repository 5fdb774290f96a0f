// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/preemption"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// QueuePlace is the queue of a task, and what the queue holds of all models together, with its children.
type QueuePlace struct {
	Name string `json:"name"`
	// Held, Borrowed and Guaranteed are GPUs, written as gpu-amount of a task. Limit is empty if there is none.
	Held       string `json:"held"`
	Borrowed   string `json:"borrowed"`
	Guaranteed string `json:"guaranteed"`
	Limit      string `json:"limit,omitempty"`
	// Factor is the queue's fair-share factor: what it has used, over what it was due; nil as long as nothing was
	// used.
	Factor *float64 `json:"factor,omitempty"`
}

// UseQueues has the view take the GPUQueues into account, as gpu-scheduler does. waiting are the Pods without a node,
// whatever their owner.
func (v *View) UseQueues(queues *Queues, waiting []*corev1.Pod) {
	v.queues, v.waiting, v.line = queues, waiting, nil
	if !queues.known() {
		return
	}
	view := gpuqueue.NewView(queues.Tree)
	of := &gpuqueue.Cluster{Tree: queues.Tree, Namespace: func(name string) *corev1.Namespace { return queues.namespaces[name] }, Node: v.Node}
	for pod := range v.Placed() {
		view.Add(of, pod)
	}
	v.ledger = view.Held
}

// inOrder returns what waits, in the order of the queues.
func (v *View) inOrder() *Line {
	if v.line == nil {
		v.line = NewLine(&LineObjects{
			Queues: v.queues, Tasks: v.Tasks, Pods: slices.Concat(slices.Collect(v.Placed()), v.waiting), Complete: true, Ledger: v.ledger, Now: v.Now,
		})
	}
	return v.line
}

// queuePlace returns the queue of a Pod; nil if it is in none.
func (v *View) queuePlace(pod *corev1.Pod) *QueuePlace {
	if v.ledger == nil {
		return nil
	}
	name := v.queues.Assign(pod).Queue
	queue := v.queues.Object(name)
	if queue == nil {
		return nil
	}
	place := &QueuePlace{
		Name: name, Held: v.ledger.Held(name, queueing.AnyModel).String(), Borrowed: v.ledger.Borrowed(name, queueing.AnyModel).String(),
		Guaranteed: v.queues.Tree.Guaranteed(name, queueing.AnyModel).String(),
	}
	if factor, known := v.queues.Factors[name]; known {
		place.Factor = &factor
	}
	for i := range queue.Spec.Resources {
		if resource := &queue.Spec.Resources[i]; resource.GPU == v1.AnyGPU && resource.Limit != nil {
			place.Limit = fmt.Sprint(*resource.Limit)
		}
	}
	return place
}

// inLine returns the entry of a task that waits, and those that are served before it in its queue; nil if it does not
// wait.
func (v *View) inLine(task *clusterview.Task) (own *LineEntry, ahead []*LineEntry, count int) {
	line := v.inOrder()
	index := slices.IndexFunc(line.Waiting, func(entry LineEntry) bool { return entry.isOf(task) })
	if index < 0 {
		return nil, nil, 0
	}
	own = &line.Waiting[index]
	for i := range line.Waiting {
		entry := &line.Waiting[i]
		if entry.Queue != own.Queue || entry.Refused {
			continue
		}
		if count++; i < index {
			ahead = append(ahead, entry)
		}
	}
	return own, ahead, count
}

// admit returns waiting Pods with their gang as their queue confines it: without optional members, or GPUs of some
// models, if the limits are too low for them. If the queue does not let it start, o says why.
func (v *View) admit(o *Outlook, w *clusterview.Waiting) *clusterview.Waiting {
	assigned := v.queues.Assign(w.Pods[0])
	if assigned.Problem != nil {
		o.Verdict, o.Problem = QueueRefuses, assigned.Problem.Message
	}
	if assigned.Problem != nil || v.ledger == nil {
		return w
	}
	confined, gang := *w, *w.Gang
	full, exceeded := gpuqueue.Confine(v.ledger, assigned.Queue, &gang.Gang)
	if exceeded != nil {
		o.Verdict, o.Problem, o.Remedies = QueueLimit, exceeded.String(), remediesOf(exceeded)
		o.Free = v.free(w.Gang)
	}
	if len(full) > 0 {
		gang.Except = slices.Concat(gang.Except, v.nodesOf(full))
	}
	confined.Gang = &gang
	return &confined
}

// The kinds of remedies against a limit of a queue.
const (
	otherQueue  = "OtherQueue"
	fewerInAll  = "FewerGPUsInAll"
	freeInQueue = "FreeGPUsInQueue"
)

// remediesOf returns what would help against a limit that is exceeded.
func remediesOf(excess *queueing.Excess) []v1.WaitingRemedy {
	if excess.Permanent() {
		most := excess.Limit.String()
		return []v1.WaitingRemedy{
			{Kind: fewerInAll, Value: most, Message: "with at most " + most + " GPUs in all"}, {Kind: otherQueue, Message: "in a queue with a higher limit"},
		}
	}
	missing := (excess.Held + excess.Wanted - excess.Limit).String()
	return []v1.WaitingRemedy{{Kind: freeInQueue, Value: missing, Message: fmt.Sprintf("when queue %s has released %s GPUs", excess.Queue, missing)}}
}

// nodesOf returns the names of the nodes with GPUs of some models.
func (v *View) nodesOf(models []string) []string {
	var names []string
	for _, node := range v.Nodes {
		if slices.Contains(models, snapshot.Model(node)) {
			names = append(names, node.Name)
		}
	}
	return names
}

// reclaimFor returns who may be preempted for waiting Pods because of their queue; nil without queues, where priority
// alone decides.
func (v *View) reclaimFor(w *clusterview.Waiting) *preemption.Queues {
	if v.ledger == nil {
		return nil
	}
	byUID := func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) }
	var held []preemption.Held
	for _, pod := range slices.SortedFunc(v.Placed(), byUID) {
		amount := gpuqueue.Amount(pod)
		if amount == 0 {
			continue
		}
		one := preemption.Held{Pod: pod, Gang: v.GangOf(string(pod.UID)), Queue: v.queues.Holder(pod), Amount: amount, Leaving: pod.DeletionTimestamp != nil}
		if node := v.Node(pod.Spec.NodeName); node != nil {
			one.Model = snapshot.Model(node)
		}
		held = append(held, one)
	}
	held = preemption.WithCompanions(held, v.Staying)
	return preemption.NewQueues(v.ledger, v.queues.Assign(w.Pods[0]).Queue, gpuqueue.Least(&w.Gang.Gang), w.Priority, held, v.Now)
}
