// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/reschedule"
)

const (
	// settleLimit is how long a moved task may take to run again before the
	// rescheduler stops moving tasks until its next period: the cluster is not
	// as it seemed.
	settleLimit = 2 * time.Minute
	settleCheck = 500 * time.Millisecond
	// runningPods selects the Pods that hold resources.
	runningPods = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
)

// rescheduler places tasks anew that sit badly, one after the other. What to
// move is decided by pkg/reschedule; the evicted Pods are replaced by the
// controller like all lost Pods.
type rescheduler struct {
	controller *Controller
	period     time.Duration
	informers  informers.SharedInformerFactory
	nodes      corelisters.NodeLister
}

// newRescheduler adds a cache of all nodes to what the controller waits for.
func newRescheduler(controller *Controller, period time.Duration) *rescheduler {
	factory := informers.NewSharedInformerFactoryWithOptions(controller.clients.kube, 0,
		informers.WithTransform(withoutManagedFields))
	nodes := factory.Core().V1().Nodes()
	controller.synced = append(controller.synced, nodes.Informer().HasSynced)
	return &rescheduler{controller: controller, period: period, informers: factory, nodes: nodes.Lister()}
}

// run looks for tasks to move once per period until ctx ends.
func (r *rescheduler) run(ctx context.Context) {
	ticker := r.controller.clock.NewTicker(r.period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			if err := r.moveAll(ctx); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Rescheduling stopped until the next period")
			}
		}
	}
}

// moveAll moves one task after the other and stops at the first one that does
// not come to run again in time. Each task is tried once, and looked at afresh:
// much may have changed while the one before found its place.
func (r *rescheduler) moveAll(ctx context.Context) error {
	tried := sets.New[types.UID]()
	var running []*corev1.Pod // listed when it is first needed, and again after a move
	for ctx.Err() == nil {
		tasks, nodes, err := r.gather()
		if err != nil {
			return err
		}
		candidates := reschedule.Candidates(tasks, nodes, r.period, r.controller.clock.Now())
		next := slices.IndexFunc(candidates, func(move reschedule.Move) bool { return !tried.Has(move.Task.UID) })
		if next < 0 {
			return nil
		}
		move := candidates[next]
		tried.Insert(move.Task.UID)
		logger := klog.LoggerWithValues(klog.FromContext(ctx), "gputask", klog.KObj(move.Task), "reason", move.Reason)
		if move.NeedsRoom {
			if running == nil {
				if running, err = r.listRunning(ctx); err != nil {
					return err
				}
			}
			if !reschedule.HasRoom(move.Pods, nodes, running) {
				logger.V(2).Info("Not moved: no room elsewhere")
				continue
			}
			running = nil
		}
		if err := r.move(klog.NewContext(ctx, logger), move); err != nil {
			return err
		}
	}
	return nil
}

func (r *rescheduler) gather() ([]reschedule.Task, []*corev1.Node, error) {
	list, err := r.controller.tasks.List(labels.Everything())
	if err != nil {
		return nil, nil, err
	}
	tasks := make([]reschedule.Task, 0, len(list))
	for _, task := range list {
		tasks = append(tasks, reschedule.Task{GPUTask: task, Pods: r.controller.podsOf(task)})
	}
	nodes, err := r.nodes.List(labels.Everything())
	return tasks, nodes, err
}

// listRunning asks the API server for all Pods that run: those of other owners
// are in no cache of ours, and running Pods are rarely moved.
func (r *rescheduler) listRunning(ctx context.Context) ([]*corev1.Pod, error) {
	list, err := r.controller.clients.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{FieldSelector: runningPods, ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods that run: %w", err)
	}
	running := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		running = append(running, &list.Items[i])
	}
	return running, nil
}

func (r *rescheduler) move(ctx context.Context, move reschedule.Move) error {
	logger := klog.FromContext(ctx)
	evicted, err := r.evictAll(ctx, move.Pods)
	if err != nil || evicted == 0 {
		return err
	}
	logger.Info("Placed anew", "pods", evicted)
	if !move.NeedsRoom {
		return nil // it held nothing: there is nothing to tell and nobody to wait for
	}
	r.controller.recorder.Eventf(move.Task, corev1.EventTypeNormal, "Rescheduled", "placed anew: %s", move.Reason)
	if move.Stuck {
		return nil
	}
	return r.waitUntilSettled(ctx, move)
}

// evictAll evicts Pods until a PodDisruptionBudget forbids it, and returns how
// many were evicted.
func (r *rescheduler) evictAll(ctx context.Context, pods []*corev1.Pod) (evicted int, err error) {
	results := r.controller.metrics.podsEvicted
	for _, pod := range pods {
		switch err := r.evict(ctx, pod); {
		case apierrors.IsTooManyRequests(err):
			klog.FromContext(ctx).Info("Not moved: a PodDisruptionBudget forbids it", "pod", klog.KObj(pod))
			results.WithLabelValues("refused").Inc()
			return evicted, nil
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
			continue // gone, or not as it was
		case err != nil:
			results.WithLabelValues("error").Inc()
			return evicted, fmt.Errorf("evicting Pod %s: %w", klog.KObj(pod), err)
		}
		results.WithLabelValues("success").Inc()
		evicted++
	}
	return evicted, nil
}

func (r *rescheduler) evict(ctx context.Context, pod *corev1.Pod) error {
	return r.controller.clients.kube.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: exactly(pod)},
	})
}

func (r *rescheduler) waitUntilSettled(ctx context.Context, move reschedule.Move) error {
	err := wait.PollUntilContextTimeout(ctx, settleCheck, settleLimit, false, func(context.Context) (bool, error) {
		task, err := r.controller.tasks.GPUTasks(move.Task.Namespace).Get(move.Task.Name)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		return reschedule.Settled(reschedule.Task{GPUTask: task, Pods: r.controller.podsOf(task)}, move.Pods), nil
	})
	if err != nil {
		return fmt.Errorf("GPUTask %s was placed anew and does not run again after %v: %w", klog.KObj(move.Task), settleLimit, err)
	}
	return nil
}
