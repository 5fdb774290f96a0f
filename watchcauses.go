// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// policyLag is how long API servers take to notice that an admission policy has changed: they look
// every second. What a webhook decides may depend on anything: of its causes, one task tries again
// every minute.
const policyLag = 3 * time.Second

// watchCauses adds the event handlers for what may make the API server accept Pods that it has
// refused. No task depends on these caches, which may never fill if permissions are missing.
func (c *Controller) watchCauses(ctx context.Context) error {
	quotas := c.causeInformers.Core().V1().ResourceQuotas().Informer()
	ranges := c.causeInformers.Core().V1().LimitRanges().Informer()
	classes := c.clusterInformers.Scheduling().V1().PriorityClasses().Informer()
	return errors.Join(
		onAnyChange(ctx, quotas, c.quotaChanged),
		onAnyChange(ctx, ranges, c.limitRangeChanged),
		onAnyChange(ctx, classes, c.priorityClassChanged),
		c.watchPolicies(ctx),
	)
}

// watchPolicies adds the event handlers for what decides which Pods are admitted. It does not say
// which Pods these are.
func (c *Controller) watchPolicies(ctx context.Context) error {
	admission := c.clusterInformers.Admissionregistration().V1()
	return errors.Join(
		onAnyChange(ctx, admission.ValidatingAdmissionPolicies().Informer(), func(*admissionv1.ValidatingAdmissionPolicy, bool) { c.policiesChanged("") }),
		onAnyChange(ctx, admission.ValidatingAdmissionPolicyBindings().Informer(), func(*admissionv1.ValidatingAdmissionPolicyBinding, bool) { c.policiesChanged("") }),
		onAnyChange(ctx, admission.ValidatingWebhookConfigurations().Informer(), func(*admissionv1.ValidatingWebhookConfiguration, bool) { c.policiesChanged("") }),
		onAnyChange(ctx, admission.MutatingWebhookConfigurations().Informer(), func(*admissionv1.MutatingWebhookConfiguration, bool) { c.policiesChanged("") }),
		onAnyChange(ctx, c.clusterInformers.Core().V1().Namespaces().Informer(), c.namespaceChanged),
	)
}

// onAnyChange calls a function for every change of an object, and whether that was its deletion.
func onAnyChange[T any](ctx context.Context, watched cache.SharedIndexInformer, changed func(object T, deleted bool)) error {
	call := func(object any, deleted bool) {
		if typed, ok := informer.LastKnown(object).(T); ok {
			changed(typed, deleted)
		}
	}
	_, err := informer.Handle(ctx, watched, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { call(object, false) },
		UpdateFunc: func(_, object any) { call(object, false) },
		DeleteFunc: func(object any) { call(object, true) },
	})
	return err
}

func (c *Controller) quotaChanged(quota *corev1.ResourceQuota, deleted bool) {
	c.obstacles.changed(func(why *cause) bool {
		return why.reason == gputask.ReasonQuotaExceeded && why.namespace == quota.Namespace &&
			why.demand.quota == quota.Name && (deleted || why.demand.fits(quota))
	}, 0)
}

// policiesChanged wakes all tasks of a namespace, or of all if it is empty, whose objects the API
// server does not admit for a reason that no other cache tells of.
func (c *Controller) policiesChanged(namespace string) {
	c.obstacles.changed(func(why *cause) bool {
		return (why.reason == reasonForbidden || why.reason == v1.ReasonInvalidPod || strings.HasSuffix(why.reason, reasonRefused)) && (namespace == "" || why.namespace == namespace)
	}, policyLag)
}

// namespaceChanged wakes the tasks of a namespace: admission policies, and queues, look at its labels.
func (c *Controller) namespaceChanged(namespace *corev1.Namespace, _ bool) {
	c.policiesChanged(namespace.Name)
	c.obstacles.changed(func(why *cause) bool { return why.namespace == namespace.Name && isAboutQueues(why) }, 0)
}

// limitRangeChanged wakes all tasks that the API server forbids Pods: it does not say because of
// which LimitRange.
func (c *Controller) limitRangeChanged(limits *corev1.LimitRange, _ bool) {
	c.obstacles.changed(func(why *cause) bool {
		return why.reason == reasonForbidden && why.namespace == limits.Namespace
	}, 0)
}

func (c *Controller) priorityClassChanged(class *schedulingv1.PriorityClass, deleted bool) {
	c.obstacles.changed(func(why *cause) bool {
		return !deleted && why.reason == reasonPriorityClassNotFound && why.text == missingClass(class.Name) ||
			class.GlobalDefault && why.reason == string(queueing.PriorityNotAccepted)
	}, 0)
}
