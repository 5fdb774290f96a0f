// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// QueueReport is all about a queue: what it gets and holds, who waits in it, and how it compares with others that have
// waiting work. The numbers are those of the queues' statuses: see Queues.Refresh.
type QueueReport struct {
	Queue *v1.GPUQueue `json:"queue"`
	// Problem is what is wrong with the queue; empty if nothing is.
	Problem string `json:"problem,omitempty"`
	// Resources are what the queue gets, holds and waits for, by model; that of "*" is first.
	Resources []QueueResource `json:"resources"`
	// Ancestors are the queues that it is a part of, the nearest first.
	Ancestors []Ancestor `json:"ancestors,omitempty"`
	// Children are the queues that are parts of it.
	Children []string `json:"children,omitempty"`
	// Share is the part of what its parent is due, by the weights of those siblings that have used something or wait; 0
	// to 1.
	Share float64 `json:"share"`
	// MaxRuntimeSeconds, DefaultRuntimeSeconds, Priorities and Reclaim are what holds for the queue, its own or
	// inherited; 0 and empty for no restriction.
	MaxRuntimeSeconds     int64              `json:"maxRuntimeSeconds,omitempty"`
	DefaultRuntimeSeconds int64              `json:"defaultRuntimeSeconds,omitempty"`
	Priorities            []string           `json:"priorities,omitempty"`
	Reclaim               v1.GPUQueueReclaim `json:"reclaim"`
	// Waiting is what waits in the queue itself, as far as it may be seen, and Running what runs.
	Waiting []LineEntry `json:"waiting,omitempty"`
	Running []LineEntry `json:"running,omitempty"`
	// Rivals are the other queues that have waiting work of their own: first those that are served before this one.
	Rivals []Rival `json:"rivals,omitempty"`
}

// QueueResource is what a queue gets and holds of a GPU model, written as gpu-amount of a task.
type QueueResource struct {
	GPU string `json:"gpu"`
	// Guaranteed is what is left of the spec's guarantee if that of its parent is too small.
	Guaranteed string `json:"guaranteed"`
	// Limit is empty if there is none.
	Limit    string `json:"limit,omitempty"`
	Used     string `json:"used"`
	Borrowed string `json:"borrowed"`
	Waiting  string `json:"waiting"`
}

// Ancestor is a queue that another one is a part of.
type Ancestor struct {
	Name      string          `json:"name"`
	Resources []QueueResource `json:"resources"`
}

// Report returns all about a queue, given what waits and runs as far as it may be seen; nil if there is no such queue.
func (q *Queues) Report(name string, line *Line) *QueueReport {
	queue := q.Object(name)
	if queue == nil {
		return nil
	}
	r := &QueueReport{
		Queue: queue, Resources: q.resources(queue), Share: q.share(name), Priorities: q.Tree.Priorities(name),
		MaxRuntimeSeconds: int64(q.Tree.MaxRuntime(name).Seconds()), DefaultRuntimeSeconds: int64(q.Tree.DefaultRuntime(name).Seconds()),
	}
	if problem := gpuqueue.Problem(queue, q.Tree); problem != nil {
		r.Problem = problem.Message
	} else if effective := meta.FindStatusCondition(queue.Status.Conditions, v1.ConditionQueueEffective); effective != nil && effective.Status == metav1.ConditionFalse {
		r.Problem = effective.Message
	}
	reclaim := q.Tree.Reclaim(name)
	r.Reclaim = v1.GPUQueueReclaim{
		Policy: v1.ReclaimPolicy(reclaim.Policy), MinRuntimeSeconds: new(int32(reclaim.MinRuntime.Seconds())), NoticeSeconds: new(int32(reclaim.Notice.Seconds())),
	}
	for _, ancestor := range q.Tree.Path(name)[1:] {
		r.Ancestors = append(r.Ancestors, Ancestor{Name: ancestor, Resources: q.resources(q.Object(ancestor))})
	}
	for _, other := range q.Tree.Queues() {
		if path := q.Tree.Path(other); len(path) > 1 && path[1] == name {
			r.Children = append(r.Children, other)
		}
	}
	r.Waiting, r.Running = entriesOf(line.Waiting, name), entriesOf(line.Running, name)
	r.Rivals = q.rivals(name, line)
	return r
}

func entriesOf(entries []LineEntry, queue string) []LineEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(entry LineEntry) bool { return entry.Queue != queue })
}

// resources returns what a queue gets and holds.
func (q *Queues) resources(queue *v1.GPUQueue) []QueueResource {
	byModel := map[string]*QueueResource{}
	of := func(model string) *QueueResource {
		if byModel[model] == nil {
			byModel[model] = &QueueResource{GPU: model, Guaranteed: q.Tree.Guaranteed(queue.Name, model).String(), Used: "0", Borrowed: "0", Waiting: "0"}
		}
		return byModel[model]
	}
	of(v1.AnyGPU)
	for i := range queue.Spec.Resources {
		if resource := &queue.Spec.Resources[i]; resource.Limit != nil {
			of(resource.GPU).Limit = fmt.Sprint(*resource.Limit)
		} else {
			of(resource.GPU)
		}
	}
	for i := range queue.Status.Resources {
		used := &queue.Status.Resources[i]
		resource := of(used.GPU)
		resource.Used, resource.Borrowed, resource.Waiting = used.Used, used.Borrowed, used.Waiting
	}
	list := make([]QueueResource, 0, len(byModel))
	for _, resource := range byModel {
		list = append(list, *resource)
	}
	slices.SortFunc(list, func(a, b QueueResource) int { return cmp.Compare(a.GPU, b.GPU) }) // "*" is less than any letter or digit
	return list
}

// share returns the part of what a queue's parent is due that is due to the queue, as queueing.Factors shares it out
// between siblings: those without work are left out, except the queue itself.
func (q *Queues) share(name string) float64 {
	parent, weights := q.parent(name), 0
	for _, other := range q.Tree.Queues() {
		if q.parent(other) == parent && (other == name || q.hasWork(other)) {
			weights += q.Tree.Weight(other)
		}
	}
	if parent != queueing.NoQueue && (q.waitsItself(parent) || q.hasUsed(parent)) {
		weights += q.Tree.Weight(parent) // its own tasks are like a child
	}
	return float64(q.Tree.Weight(name)) / float64(weights)
}

func (q *Queues) parent(name string) string {
	if path := q.Tree.Path(name); len(path) > 1 {
		return path[1]
	}
	return queueing.NoQueue
}

// hasWork reports whether a queue or one of its children has used GPU time lately or waits for some.
func (q *Queues) hasWork(name string) bool {
	queue := q.Object(name)
	return queue.Status.Waiting > 0 || queue.Status.Usage != nil && queue.Status.Usage.GPUSeconds > 0
}

// hasUsed reports whether tasks in a queue that are not in one of its children have used GPU time lately.
func (q *Queues) hasUsed(name string) bool {
	usage := q.Object(name).Status.Usage
	return usage != nil && usage.OwnGPUSeconds > 0
}

// InTreeOrder returns the names of the queues, each followed by its children, by name.
func (q *Queues) InTreeOrder() []string {
	children := map[string][]string{}
	for _, name := range slices.Sorted(slices.Values(q.Tree.Queues())) {
		children[q.parent(name)] = append(children[q.parent(name)], name)
	}
	var list []string
	var add func(parent string)
	add = func(parent string) {
		for _, child := range children[parent] {
			list = append(list, child)
			add(child)
		}
	}
	add(queueing.NoQueue)
	return list
}
