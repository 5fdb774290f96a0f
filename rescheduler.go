// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
// not come to run again in time.
func (r *rescheduler) moveAll(ctx context.Context) error {
	tasks, nodes, err := r.gather()
	if err != nil {
		return err
	}
	byName := make(map[string]*corev1.Node, len(nodes))
	for _, node := range nodes {
		byName[node.Name] = node
	}
	for _, move := range reschedule.Candidates(tasks, byName, r.period, r.controller.clock.Now()) {
		logger := klog.LoggerWithValues(klog.FromContext(ctx), "gputask", klog.KObj(move.Task), "reason", move.Reason)
		if move.NeedsRoom {
			room, err := r.hasRoom(ctx, move, nodes)
			if err != nil {
				return err
			}
			if !room {
				logger.V(2).Info("Not moved: no room elsewhere")
				continue
			}
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

// hasRoom asks the API server for all Pods that run: those of other owners are
// in no cache of ours, and running Pods are rarely moved.
func (r *rescheduler) hasRoom(ctx context.Context, move reschedule.Move, nodes []*corev1.Node) (bool, error) {
	list, err := r.controller.clients.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{FieldSelector: runningPods, ResourceVersion: "0"})
	if err != nil {
		return false, fmt.Errorf("listing the Pods that run: %w", err)
	}
	running := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		running = append(running, &list.Items[i])
	}
	return reschedule.HasRoom(move.Pods, nodes, running), nil
}

func (r *rescheduler) move(ctx context.Context, move reschedule.Move) error {
	logger := klog.FromContext(ctx)
	for _, pod := range move.Pods {
		switch err := r.evict(ctx, pod); {
		case apierrors.IsTooManyRequests(err):
			logger.Info("Not moved: a PodDisruptionBudget forbids it", "pod", klog.KObj(pod))
			r.controller.metrics.podsEvicted.WithLabelValues("refused").Inc()
			return nil
		case err != nil:
			r.controller.metrics.podsEvicted.WithLabelValues("error").Inc()
			return fmt.Errorf("evicting Pod %s: %w", klog.KObj(pod), err)
		}
		r.controller.metrics.podsEvicted.WithLabelValues("success").Inc()
	}
	logger.Info("Placed anew", "pods", len(move.Pods))
	r.controller.recorder.Eventf(move.Task, corev1.EventTypeNormal, "Rescheduled", "placed anew: %s", move.Reason)
	if !move.NeedsRoom {
		return nil // it held nothing; the next task need not wait for it
	}
	return r.waitUntilSettled(ctx, move)
}

func (r *rescheduler) evict(ctx context.Context, pod *corev1.Pod) error {
	err := r.controller.clients.kube.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone already
	}
	return err
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
