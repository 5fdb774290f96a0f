// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/refusals"
)

// watchServices adds the event handlers for the Services of tasks.
func (c *Controller) watchServices(ctx context.Context) error {
	synced, err := informer.OnAnyChange(ctx, c.coreInformers.Core().V1().Services().Informer(), func(service *corev1.Service, _ bool) { c.serviceChanged(service) })
	if err != nil {
		return err
	}
	c.synced = append(c.synced, synced)
	return nil
}

func (c *Controller) serviceChanged(service *corev1.Service) {
	owner := gputask.ControllerOf(service)
	if owner == nil {
		return
	}
	key := cache.NewObjectName(service.Namespace, owner.Name)
	c.expectations.ObserveCreation(key, expectedService(service.Name))
	c.enqueueAfter(key, podEventBatch)
}

// expectedService is the name of a Service among the expected creations, the others of which are
// Pods.
func expectedService(name string) string { return "service/" + name }

// createService creates the Service of a task, if there is one to create. A refusal is remembered for
// the task's status.
func (c *Controller) createService(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, service *corev1.Service) error {
	if service == nil {
		return nil
	}
	c.expectations.ExpectCreation(key, expectedService(service.Name))
	_, err := c.clients.kube.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
	if err == nil {
		klog.FromContext(ctx).V(2).Info("Created Service", "service", klog.KObj(service))
		return nil
	}
	c.expectations.ObserveCreation(key, expectedService(service.Name))
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the task is deleted with its namespace
	}
	if apierrors.IsAlreadyExists(err) {
		existing, err := c.clients.kube.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
		return c.nameConflict(task, "Service", existing, err)
	}
	c.refused(task, refusals.Of(err, "Service"))
	return fmt.Errorf("creating Service %s: %w", service.Name, err)
}
