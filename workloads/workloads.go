// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workloads makes GPUTasks with the label kueue.x-k8s.io/queue-name workloads of Kueue: it
// reads and writes the Workload objects that package kueue decides on. Nothing is watched before
// the first such task exists, and nothing changes where Kueue is neither installed nor expected.
package workloads

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/informer/optional"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

// Dependencies are what Workloads needs.
type Dependencies struct {
	Client    dynamic.Interface
	Discovery informer.Discoverer
	// Reviews tell which rights this process has.
	Reviews authorizationclient.SelfSubjectAccessReviewInterface
	// Classes are the PriorityClasses of the cluster, once ClassesSynced says so.
	Classes       schedulinglisters.PriorityClassLister
	ClassesSynced cache.InformerSynced
	Clock         clock.Clock
	// Namespace restricts which tasks are handled; empty for all.
	Namespace string
	Pods      gputask.PodDefaults
	// Changed is called when the Workload of a task has changed, AllChanged when it has become
	// known whether there is Kueue, or is to be, or a flavor has changed.
	Changed    func(task cache.ObjectName)
	AllChanged func()
}

// Workloads reads and writes the Workloads of GPUTasks. It is safe for concurrent use.
type Workloads struct {
	deps     Dependencies
	api      *optional.API
	expected *expectation
	wanted   chan struct{}
	want     func()
}

// New returns the Workloads of GPUTasks.
func New(deps Dependencies) *Workloads {
	w := &Workloads{deps: deps, wanted: make(chan struct{})}
	w.want = sync.OnceFunc(func() { close(w.wanted) })
	w.expected = &expectation{
		reviews: deps.Reviews, namespace: deps.Namespace, clock: deps.Clock, changed: deps.AllChanged, asked: make(chan struct{}, 1),
		absent: func() bool { return w.api.Availability() == optional.Absent },
	}
	changed := func() {
		w.expected.forget()
		deps.AllChanged()
	}
	w.api = optional.New(deps.Client, deps.Discovery, deps.Clock,
		schema.GroupVersion{Group: kueue.Group, Version: kueue.Version}, changed,
		optional.Watched{
			Resource: kueue.Workloads, Namespace: deps.Namespace, Selector: v1.LabelTask,
			Transform: trimWorkload, Changed: w.workloadChanged,
		},
		optional.Watched{
			Resource: kueue.ResourceFlavors, Transform: informer.WithoutManagedFields,
			Changed: func(*unstructured.Unstructured, bool) { deps.AllChanged() },
		})
	return w
}

// Run watches Workloads until ctx ends, from the first task that is submitted to a queue.
func (w *Workloads) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-w.wanted:
		var running sync.WaitGroup
		running.Go(func() { w.expected.run(ctx) })
		w.api.Run(ctx)
		running.Wait()
	}
}

// trimWorkload drops what is not needed, to save memory: the Pod templates above all.
func trimWorkload(object any) (any, error) {
	if workload, ok := object.(*unstructured.Unstructured); ok {
		sets, _, _ := unstructured.NestedSlice(workload.Object, "spec", "podSets")
		for i := range sets {
			if set, ok := sets[i].(map[string]any); ok {
				set["template"] = map[string]any{}
			}
		}
		if sets != nil {
			_ = unstructured.SetNestedSlice(workload.Object, sets, "spec", "podSets")
		}
	}
	return informer.WithoutManagedFields(object)
}

func (w *Workloads) workloadChanged(workload *unstructured.Unstructured, _ bool) {
	w.deps.Changed(cache.NewObjectName(workload.GetNamespace(), workload.GetLabels()[v1.LabelTask]))
}

// Admission returns what Kueue says about a task, and whether that is known: it is not before the
// first look at the API server, and the task must not be touched until then. The admission is nil
// if Kueue has nothing to do with the task.
func (w *Workloads) Admission(task *v1.GPUTask, pods []*corev1.Pod) (admission *gputask.Admission, known bool, err error) {
	if kueue.QueueOf(task) == "" {
		return nil, true, nil
	}
	w.want()
	switch w.api.Availability() {
	case optional.Unknown:
		return nil, false, nil
	case optional.Absent:
		if expected, known := w.expected.get(); !known || !expected {
			return nil, known, nil
		}
		return held(task, pods, kueue.Gone()), true, nil
	case optional.Forbidden:
		return held(task, pods, kueue.Forbidden()), true, nil
	case optional.Listed:
	}
	if !gputask.WantsQuota(task) && !gputask.WaitsForDependencies(task) {
		return nil, true, nil
	}
	workload, err := w.of(task)
	if err != nil {
		return nil, true, err
	}
	admission, err = kueue.AdmissionOf(task, workload, kueue.FlavorsIn(w.api))
	return admission, true, err
}

// held returns the admission of a task that may not start; nil if it runs: stopping it would help
// nobody.
func held(task *v1.GPUTask, pods []*corev1.Pod, until *gputask.Admission) *gputask.Admission {
	if len(gputask.ActivePods(task, pods)) > 0 {
		return nil
	}
	return until
}

// of returns the Workload of a task; nil if it has none.
func (w *Workloads) of(task *v1.GPUTask) (*kueue.Workload, error) {
	object := w.api.Get(kueue.Workloads, task.Namespace, kueue.WorkloadName(task))
	if object == nil || !metav1.IsControlledBy(object, task) {
		return nil, nil //nolint:nilnil // there is none
	}
	return kueue.Read[kueue.Workload](object)
}

// Report brings the Workload of a task up to date, given the plan that was carried out for it and its Pods before.
func (w *Workloads) Report(ctx context.Context, task *v1.GPUTask, plan *gputask.Plan, pods []*corev1.Pod) error {
	if w.api.Availability() != optional.Listed {
		return nil
	}
	workload, err := w.of(task)
	if err != nil || (workload == nil && kueue.QueueOf(task) == "") {
		return err
	}
	step, err := kueue.Next(kueue.Observed{
		Task: task, Status: &plan.Status, Active: plan.ActivePods(task, pods), Workload: workload, Now: w.deps.Clock.Now(),
	})
	if err != nil || step == (kueue.Step{}) {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Writing the Workload", "step", step)
	if err := w.do(ctx, task, workload, step); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing Workload %s: %w", kueue.WorkloadName(task), err)
	}
	return nil
}

func (w *Workloads) do(ctx context.Context, task *v1.GPUTask, workload *kueue.Workload, step kueue.Step) error {
	client := w.deps.Client.Resource(kueue.Resource(kueue.Workloads)).Namespace(task.Namespace)
	switch {
	case step.Create:
		wanted, err := w.wantedBy(ctx, task)
		if err != nil {
			return err
		}
		object, err := wanted.Unstructured()
		if err != nil {
			return err
		}
		_, err = client.Create(ctx, object, metav1.CreateOptions{})
		return err
	case step.Delete:
		return client.Delete(ctx, workload.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(workload.UID))})
	case step.Spec:
		wanted, err := w.wantedBy(ctx, task)
		if err != nil {
			return err
		}
		return w.api.Patch(ctx, kueue.Workloads, cache.MetaObjectToName(workload), workload.SpecPatch(wanted))
	default:
		return w.api.Patch(ctx, kueue.Workloads, cache.MetaObjectToName(workload), step.Status.Patch(workload), "status")
	}
}

// wantedBy returns the Workload that a task should have.
func (w *Workloads) wantedBy(ctx context.Context, task *v1.GPUTask) (*kueue.Workload, error) {
	priority, err := w.priorityOf(ctx, task)
	if err != nil {
		return nil, err
	}
	return kueue.NewWorkload(task, w.deps.Pods, priority)
}

var errNoPriority = errors.New("its priority is unknown")

// priorityOf returns the priority of a task in its queue.
func (w *Workloads) priorityOf(ctx context.Context, task *v1.GPUTask) (kueue.Priority, error) {
	class := kueue.ClassOf(task)
	switch {
	case (class == nil || class.Group != kueue.Group) && !w.deps.ClassesSynced():
		return kueue.Priority{}, fmt.Errorf("%w: the PriorityClasses have not been listed yet", errNoPriority)
	case class == nil:
		return w.defaultPriority()
	case class.Group != kueue.Group:
		found, err := w.deps.Classes.Get(class.Name)
		if err != nil {
			return kueue.Priority{}, fmt.Errorf("%w: there is no PriorityClass %q", errNoPriority, class.Name)
		}
		return kueue.Priority{Class: class, Value: found.Value}, nil
	}
	object, err := w.deps.Client.Resource(kueue.Resource(kueue.WorkloadPriorityClasses)).Get(ctx, class.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return kueue.Priority{}, fmt.Errorf("%w: there is no WorkloadPriorityClass %q, which the label %s names", errNoPriority, class.Name, kueue.LabelPriorityClass)
	}
	if err != nil {
		return kueue.Priority{}, err
	}
	value, _, err := unstructured.NestedInt64(object.Object, "value")
	return kueue.Priority{Class: class, Value: int32(value)}, err //nolint:gosec // its schema says int32
}

// defaultPriority returns the priority of Pods that name no class: that of the default class, if
// there is one, of several the lowest, as in the API server.
func (w *Workloads) defaultPriority() (kueue.Priority, error) {
	classes, err := w.deps.Classes.List(labels.Everything())
	if err != nil {
		return kueue.Priority{}, err
	}
	var lowest *schedulingv1.PriorityClass
	for _, class := range classes {
		if class.GlobalDefault && (lowest == nil || class.Value < lowest.Value) {
			lowest = class
		}
	}
	if lowest == nil {
		return kueue.Priority{}, nil
	}
	return kueue.Priority{Class: kueue.PodPriorityClass(lowest.Name), Value: lowest.Value}, nil
}
