// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/pkg/spelling"
)

// Observation is a snapshot of a cluster.
type Observation struct {
	clusterview.Objects
	// Priorities are the PriorityClasses.
	Priorities Priorities
	// Queues are the GPUQueues, as far as they may be seen; nil if they are not a part of the observation.
	Queues *QueueList
	// Waiting are the Pods without a node that have not ended, whatever their owner.
	Waiting []*corev1.Pod
}

// Observe lists everything that decisions depend on. The lists are not taken at exactly
// the same moment, but neither are a scheduler's caches.
func Observe(ctx context.Context, clients *Clients, levels snapshot.Levels, now time.Time) (*Observation, error) {
	var (
		nodes   *corev1.NodeList
		pods    *corev1.PodList
		tasks   *v1.GPUTaskList
		plans   *v1.MovePlanList
		budgets *policyv1.PodDisruptionBudgetList
		classes *schedulingv1.PriorityClassList
		queues  *QueueList
	)
	all := metav1.ListOptions{}
	// A failed list does not cancel the others: the client would log their cancellation.
	if err := inParallel(func() (err error) {
		nodes, err = clients.Kube.CoreV1().Nodes().List(ctx, all)
		return listError("nodes", err)
	}, func() (err error) {
		pods, err = clients.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, all)
		return listError("pods", err)
	}, func() (err error) {
		tasks, err = clients.Tasks.FalldioV1().GPUTasks(metav1.NamespaceAll).List(ctx, all)
		return listError("gputasks", err)
	}, func() (err error) {
		plans, err = clients.Tasks.FalldioV1().MovePlans().List(ctx, all)
		return listError("moveplans", err)
	}, func() (err error) {
		budgets, err = clients.Kube.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, all)
		return listError("poddisruptionbudgets", err)
	}, func() (err error) {
		classes, err = clients.Kube.SchedulingV1().PriorityClasses().List(ctx, all)
		return listError("priorityclasses", err)
	}, func() (err error) {
		queues, err = ListQueues(ctx, clients, clients.Namespace)
		return err
	}); err != nil {
		return nil, err
	}
	objects := clusterview.Objects{
		Tasks: withPods(tasks.Items, pods.Items), Nodes: pointers(nodes.Items), Pods: placed(pods.Items),
		Budgets: pointers(budgets.Items), Plans: pointers(plans.Items), Levels: levels, Now: now,
	}
	return &Observation{Objects: objects, Priorities: newPriorities(classes.Items), Queues: queues, Waiting: unplaced(pods.Items)}, nil
}

// inParallel calls functions and returns the error of the first in their order that has failed: so a user reads the
// same error each time.
func inParallel(calls ...func() error) error {
	errs := make([]error, len(calls))
	var running sync.WaitGroup
	for i, call := range calls {
		running.Go(func() { errs[i] = call() })
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// listError returns an error that names the resource and, if the user may not list it, what to ask for.
func listError(what string, err error) error {
	if err == nil {
		return nil
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("listing %s: %w (this command reads the whole cluster: ask for the ClusterRole gputasks-cluster-view, which allows you to list nodes, pods, gputasks, moveplans, gpuqueues, namespaces, poddisruptionbudgets and priorityclasses)", what, err)
	}
	return fmt.Errorf("listing %s: %w", what, err)
}

// withPods joins tasks and the Pods that they control.
func withPods(tasks []v1.GPUTask, pods []corev1.Pod) []clusterview.Task {
	byOwner := map[gputask.Identity][]*corev1.Pod{}
	for i := range pods {
		if owner, owned := gputask.OwnerOf(&pods[i]); owned {
			byOwner[owner] = append(byOwner[owner], &pods[i])
		}
	}
	joined := make([]clusterview.Task, len(tasks))
	for i := range tasks {
		joined[i] = clusterview.Task{GPUTask: &tasks[i], Pods: byOwner[gputask.IdentityOf(&tasks[i])]}
	}
	return joined
}

// placed returns the Pods that are bound to a node and have not ended.
func placed(pods []corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(notEnded(pods), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" })
}

// unplaced returns the Pods that have no node and have not ended.
func unplaced(pods []corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(notEnded(pods), func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
}

func pointers[T any](items []T) []*T {
	list := make([]*T, len(items))
	for i := range items {
		list[i] = &items[i]
	}
	return list
}

// Priorities are the PriorityClasses of a cluster.
type Priorities struct {
	classes  map[string]*schedulingv1.PriorityClass
	fallback *schedulingv1.PriorityClass
}

func newPriorities(classes []schedulingv1.PriorityClass) Priorities {
	p := Priorities{classes: make(map[string]*schedulingv1.PriorityClass, len(classes))}
	for i := range classes {
		p.classes[classes[i].Name] = &classes[i]
		if classes[i].GlobalDefault {
			p.fallback = &classes[i]
		}
	}
	return p
}

// ListPriorities lists the PriorityClasses of a cluster.
func ListPriorities(ctx context.Context, clients *Clients) (Priorities, error) {
	list, err := clients.Kube.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return Priorities{}, err
	}
	return newPriorities(list.Items), nil
}

// Admit sets the priority that a Pod would get if it were created. It fails if the
// PriorityClass does not exist.
func (p Priorities) Admit(pod *corev1.Pod) error {
	class := p.fallback
	if name := pod.Spec.PriorityClassName; name != "" {
		if class = p.classes[name]; class == nil {
			return fmt.Errorf("spec.priority: there is no PriorityClass %q%s", name, p.instead(name))
		}
	}
	if class == nil {
		pod.Spec.Priority = new(int32(0))
		return nil
	}
	pod.Spec.PriorityClassName, pod.Spec.Priority, pod.Spec.PreemptionPolicy = class.Name, new(class.Value), class.PreemptionPolicy
	return nil
}

// Names returns the names of the PriorityClasses for tasks: those of Kubernetes itself are not.
func (p Priorities) Names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.classes)), func(name string) bool { return strings.HasPrefix(name, "system-") })
}

// instead ends the sentence that there is no PriorityClass of that name.
func (p Priorities) instead(name string) string {
	names := p.Names()
	if len(names) == 0 {
		return ": there is none in this cluster"
	}
	return "; " + plural.ThereAre(names) + spelling.DidYouMean(spelling.Nearest(name, names))
}

// ControlledBy returns the Pods that a task controls, ordered by index. The others are dropped from the list.
func ControlledBy(pods []*corev1.Pod, task *v1.GPUTask) []*corev1.Pod {
	controlled := slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !metav1.IsControlledBy(pod, task) })
	slices.SortStableFunc(controlled, func(a, b *corev1.Pod) int { return analysis.ComparePodNames(a.Name, b.Name) })
	return controlled
}

// PodsIn lists the Pods of a namespace.
func PodsIn(ctx context.Context, clients *Clients, namespace string) ([]*corev1.Pod, error) {
	list, err := clients.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods of namespace %s: %w", namespace, err)
	}
	return pointers(list.Items), nil
}

// PodsOf lists the Pods that a task controls, ordered by index.
func PodsOf(ctx context.Context, clients *Clients, task *v1.GPUTask) ([]*corev1.Pod, error) {
	list, err := clients.Kube.CoreV1().Pods(task.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1.LabelTask + "=" + task.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods of task %s: %w", task.Name, err)
	}
	return ControlledBy(pointers(list.Items), task), nil
}
