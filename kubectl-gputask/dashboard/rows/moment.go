// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"cmp"
	"maps"
	"slices"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/accounting"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// Moment is what the history keeps of one time.
type Moment struct {
	Sample Sample
	Parts  Parts
	// Starts are the first starts of all tasks that have begun, as far as they are known.
	Starts []Start
}

// Parts are those of the cluster, by each dimension of accounting by which the history is split.
type Parts struct{ ByQueue, ByModel, ByNamespace []Part }

// Part is what the Pods of one queue, model or namespace hold and wait for, in GPUs.
type Part struct {
	Name               string
	Allocated, Waiting float64
}

// MaxParts is how many names the history tells apart at a time. All others are one part, accounting.Others.
const MaxParts = 30

// By returns the parts in a dimension; all as one part if it is empty.
func (p *Parts) By(dimension string) []Part {
	switch dimension {
	case accounting.ByQueue:
		return p.ByQueue
	case accounting.ByModel:
		return p.ByModel
	case accounting.ByNamespace:
		return p.ByNamespace
	}
	var all Part
	for i := range p.ByQueue {
		all.add(&p.ByQueue[i])
	}
	return []Part{all}
}

func (p *Part) add(other *Part) {
	p.Allocated += other.Allocated
	p.Waiting += other.Waiting
}

// Largest returns the largest parts, at most MaxParts, and the sum of the others as one more.
func Largest(parts []Part) []Part {
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Or(-cmp.Compare(a.Allocated, b.Allocated), -cmp.Compare(a.Waiting, b.Waiting), cmp.Compare(a.Name, b.Name))
	})
	if len(parts) <= MaxParts {
		return parts
	}
	others := Part{Name: accounting.Others}
	for i := range parts[MaxParts:] {
		others.add(&parts[MaxParts+i])
	}
	return append(slices.Clone(parts[:MaxParts]), others)
}

// Start is when a task began to run for the first time, and how long it had waited from when its Pods could be created.
type Start struct {
	UID                     types.UID
	At                      time.Time
	Waited                  time.Duration
	Queue, Model, Namespace string
}

// By returns where the task belongs in a dimension; empty if that is.
func (s *Start) By(dimension string) string {
	switch dimension {
	case accounting.ByQueue:
		return s.Queue
	case accounting.ByModel:
		return s.Model
	case accounting.ByNamespace:
		return s.Namespace
	default:
		return ""
	}
}

// moment returns what the history keeps of now.
func (b *builder) moment() *Moment {
	models := map[string]string{}
	for i := range b.top.Leaves {
		for j := range b.top.Leaves[i].Nodes {
			models[b.top.Leaves[i].Nodes[j].Name] = b.top.Leaves[i].Nodes[j].Model
		}
	}
	return &Moment{Sample: b.sample(), Parts: b.parts(models), Starts: b.starts(models)}
}

// parts counts Pods as the books do, so that the curves and the GPU-hours are of the same GPUs.
func (b *builder) parts(models map[string]string) Parts {
	queues, byModel, namespaces := sums{}, sums{}, sums{}
	for pod := range b.view.Placed() {
		if amount := gpuqueue.Amount(pod); amount > 0 {
			part := &Part{Allocated: gpusOf(amount)}
			queues.add(b.queues.Holder(pod), part)
			byModel.add(models[pod.Spec.NodeName], part)
			namespaces.add(pod.Namespace, part)
		}
	}
	for i := range b.line.Waiting {
		entry := &b.line.Waiting[i]
		part := &Part{Waiting: gpusOf(entry.Asked())}
		queues.add(entry.Queue, part)
		byModel.add(cmp.Or(entry.Model, queueing.AnyModel), part)
		namespaces.add(entry.Namespace, part)
	}
	return Parts{ByQueue: queues.parts(), ByModel: byModel.parts(), ByNamespace: namespaces.parts()}
}

func gpusOf(amount queueing.Amount) float64 { return float64(amount) / float64(queueing.GPU) }

type sums map[string]*Part

func (s sums) add(name string, part *Part) {
	if s[name] == nil {
		s[name] = &Part{Name: unique.Make(name).Value()} // it is kept for long, and the same in each moment
	}
	s[name].add(part)
}

func (s sums) parts() []Part {
	parts := make([]Part, 0, len(s))
	for part := range maps.Values(s) {
		parts = append(parts, *part)
	}
	return Largest(parts)
}

func (b *builder) starts(models map[string]string) []Start {
	var starts []Start
	for i := range b.view.Tasks {
		task := &b.view.Tasks[i]
		at, known := firstStart(task.GPUTask)
		if !known {
			continue
		}
		since := cmp.Or(task.Status.StartTime, &task.CreationTimestamp)
		start := Start{UID: task.UID, At: at, Waited: max(0, at.Sub(since.Time)), Queue: b.queues.Holder(podOf(task)), Model: task.Spec.GPU, Namespace: task.Namespace}
		if len(task.Status.Nodes) > 0 {
			start.Model = cmp.Or(models[task.Status.Nodes[0]], start.Model)
		}
		starts = append(starts, start)
	}
	return starts
}

// podOf returns a Pod of a task, or one that is in the same queue.
func podOf(task *clusterview.Task) *corev1.Pod {
	if len(task.Pods) > 0 {
		return task.Pods[0]
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Labels: map[string]string{v1.LabelQueue: task.Spec.Queue}}}
}

// firstStart returns when a task began to run for the first time. Of one that has been interrupted, that is not known
// any more.
func firstStart(task *v1.GPUTask) (at time.Time, known bool) {
	status := &task.Status
	past := time.Duration(status.PastRuntimeSeconds) * time.Second
	switch {
	case status.RunningSince != nil:
		return status.RunningSince.Time, past == 0
	case status.CompletionTime == nil || past == 0:
		return time.Time{}, false
	default:
		interrupted := status.Restarts > 0 || status.LastInterruption != nil || status.Losses != nil || apimeta.FindStatusCondition(status.Conditions, v1.ConditionSuspended) != nil
		return status.CompletionTime.Add(-past), !interrupted
	}
}
