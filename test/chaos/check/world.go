// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

// world is the state of the cluster at an entry of a history. What came before the history is
// unknown: nothing is concluded from the absence of an object.
type world struct {
	config Config
	report func(invariant, subject, format string, args ...any)

	index   int
	elapsed time.Duration
	// calm is how long nothing has disturbed the processes so far, all such times together.
	calm time.Duration
	// active are the faults that are not over, and disturbed is when the last one ended.
	active        map[int]*history.Fault
	disturbed     time.Duration
	everDisturbed bool

	pods  map[types.UID]*corev1.Pod
	tasks map[types.UID]*v1.GPUTask
	nodes map[string]*corev1.Node
	plans map[types.UID]*v1.MovePlan
	// taskNames are the UIDs of the tasks that exist.
	taskNames map[types.NamespacedName]types.UID
	// goneTasks are the UIDs of tasks that were deleted.
	goneTasks map[types.UID]bool
	// leaving are namespaces that are being deleted.
	leaving map[string]bool
	marks   map[history.Mark]bool

	disruptions disruptions
	deletions   deletions
}

// step is an entry, and what it changes.
type step struct {
	*history.Entry
	// pod and so on are the object of the entry; before is its last revision, nil if there is none.
	pod, podBefore   *corev1.Pod
	task, taskBefore *v1.GPUTask
	node, nodeBefore *corev1.Node
	plan, planBefore *v1.MovePlan
	queue            *v1.GPUQueue
	gone             bool
}

func newWorld(config Config, report func(invariant, subject, format string, args ...any)) *world {
	return &world{
		config: config, report: report, index: -1, active: map[int]*history.Fault{},
		pods: map[types.UID]*corev1.Pod{}, tasks: map[types.UID]*v1.GPUTask{}, nodes: map[string]*corev1.Node{}, plans: map[types.UID]*v1.MovePlan{},
		taskNames: map[types.NamespacedName]types.UID{}, goneTasks: map[types.UID]bool{},
		leaving: map[string]bool{}, marks: map[history.Mark]bool{}, disruptions: newDisruptions(), deletions: deletions{},
	}
}

func (w *world) take(entry *history.Entry) *step {
	w.index++
	w.pass(entry.Elapsed)
	s := &step{Entry: entry}
	switch {
	case entry.Object != nil:
		w.takeObject(s)
	case entry.Fault != nil:
		w.takeFault(entry.Fault)
	case entry.Intent != nil:
		w.disruptions.intend(entry.Intent, w.elapsed)
	case entry.Request != nil:
		w.deletions.take(entry.Request)
	case entry.Mark != "":
		w.marks[entry.Mark] = true
	}
	return s
}

// pass lets time pass. It counts as calm when no fault is active, and the last one has been over for
// long enough.
func (w *world) pass(now time.Duration) {
	if w.index == 0 {
		w.elapsed = now
	}
	if len(w.active) == 0 {
		from := w.elapsed
		if w.everDisturbed {
			from = max(from, w.disturbed+w.config.Settle)
		}
		w.calm += max(0, now-from)
	}
	w.elapsed = max(w.elapsed, now)
}

func (w *world) takeFault(fault *history.Fault) {
	w.everDisturbed = true
	w.disturbed = w.elapsed
	if fault.Ends {
		delete(w.active, fault.Number)
		w.disruptions.end(fault, w.elapsed)
		return
	}
	w.active[fault.Number] = fault
	w.disruptions.begin(fault, w.elapsed)
}

func (w *world) takeObject(s *step) {
	object := s.Object
	s.gone = object.Deleted
	switch {
	case object.Pod != nil:
		s.pod, s.podBefore = object.Pod, w.pods[object.Pod.UID]
		keep(w.pods, object.Pod.UID, object.Pod, s.gone)
	case object.Task != nil:
		s.task, s.taskBefore = object.Task, w.tasks[object.Task.UID]
		keep(w.tasks, object.Task.UID, object.Task, s.gone)
		keep(w.taskNames, keyOf(object.Task), object.Task.UID, s.gone)
		if s.gone {
			w.goneTasks[object.Task.UID] = true
		}
	case object.Node != nil:
		s.node, s.nodeBefore = object.Node, w.nodes[object.Node.Name]
		keep(w.nodes, object.Node.Name, object.Node, s.gone)
		w.disruptions.node(s.nodeBefore, object.Node, w.elapsed)
	case object.Plan != nil:
		s.plan, s.planBefore = object.Plan, w.plans[object.Plan.UID]
		keep(w.plans, object.Plan.UID, object.Plan, s.gone)
	case object.Queue != nil:
		s.queue = object.Queue
	case object.Namespace != nil:
		name := object.Namespace.Name
		if s.gone || object.Namespace.DeletionTimestamp != nil {
			w.leaving[name] = true
		} else {
			delete(w.leaving, name)
		}
	}
}

// keep puts a value into a map, or deletes it.
func keep[K comparable, V any](into map[K]V, key K, value V, gone bool) {
	if gone {
		delete(into, key)
		return
	}
	into[key] = value
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func nameOf(object metav1.Object) string { return object.GetNamespace() + "/" + object.GetName() }

// taskOf returns the UID of the task that owns a Pod; false if none does.
func taskOf(pod *corev1.Pod) (types.UID, bool) {
	for i := range pod.OwnerReferences {
		if owner := &pod.OwnerReferences[i]; owner.Kind == "GPUTask" && owner.Controller != nil && *owner.Controller {
			return owner.UID, true
		}
	}
	return "", false
}
