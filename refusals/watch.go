// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package refusals

import (
	"context"
	"errors"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/client-go/informers"
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

// Watch adds the event handlers for what may make the API server accept objects that it has refused: in the
// namespaces of the tasks, and in the cluster. No task depends on these caches, which may never fill if
// permissions are missing.
func (t *Tasks) Watch(ctx context.Context, namespaced, cluster informers.SharedInformerFactory) error {
	core, admission := namespaced.Core().V1(), cluster.Admissionregistration().V1()
	t.classes = cluster.Scheduling().V1().PriorityClasses().Lister()
	return errors.Join(
		watch(ctx, core.ResourceQuotas().Informer(), t.quotaChanged),
		watch(ctx, core.LimitRanges().Informer(), t.limitRangeChanged),
		watch(ctx, cluster.Scheduling().V1().PriorityClasses().Informer(), t.priorityClassChanged),
		watch(ctx, cluster.Core().V1().Namespaces().Informer(), func(namespace *corev1.Namespace, _ bool) { t.NamespaceChanged(namespace.Name) }),
		// These decide which Pods are admitted, and don't say which Pods these are.
		watch(ctx, admission.ValidatingAdmissionPolicies().Informer(), func(*admissionv1.ValidatingAdmissionPolicy, bool) { t.policiesChanged("") }),
		watch(ctx, admission.ValidatingAdmissionPolicyBindings().Informer(), func(*admissionv1.ValidatingAdmissionPolicyBinding, bool) { t.policiesChanged("") }),
		watch(ctx, admission.ValidatingWebhookConfigurations().Informer(), func(*admissionv1.ValidatingWebhookConfiguration, bool) { t.policiesChanged("") }),
		watch(ctx, admission.MutatingWebhookConfigurations().Informer(), func(*admissionv1.MutatingWebhookConfiguration, bool) { t.policiesChanged("") }),
	)
}

func watch[T any](ctx context.Context, watched cache.SharedIndexInformer, changed func(object T, deleted bool)) error {
	_, err := informer.OnAnyChange(ctx, watched, changed)
	return err
}

func (t *Tasks) quotaChanged(quota *corev1.ResourceQuota, deleted bool) {
	t.changed(func(why *cause) bool {
		return why.reason == gputask.ReasonQuotaExceeded && why.namespace == quota.Namespace &&
			why.demand.quota == quota.Name && (deleted || why.demand.fits(quota))
	}, 0)
}

// policiesChanged wakes all tasks of a namespace, or of all if it is empty, whose objects the API
// server does not admit for a reason that no other cache tells of.
func (t *Tasks) policiesChanged(namespace string) {
	t.changed(func(why *cause) bool {
		return (why.reason == reasonForbidden || why.reason == v1.ReasonInvalidPod || strings.HasSuffix(why.reason, reasonRefused)) && (namespace == "" || why.namespace == namespace)
	}, policyLag)
}

// NamespaceChanged wakes the tasks of a namespace: admission policies, and queues, look at its labels.
func (t *Tasks) NamespaceChanged(namespace string) {
	t.policiesChanged(namespace)
	t.changed(func(why *cause) bool { return why.namespace == namespace && isAboutQueues(why) }, 0)
}

// QueuesChanged wakes all tasks that may not use their GPUQueue. Which queue's change helps a task is not
// known: a parent has a part in it, too.
func (t *Tasks) QueuesChanged() { t.changed(isAboutQueues, 0) }

// isAboutQueues reports whether a queue is the cause.
func isAboutQueues(why *cause) bool {
	switch queueing.Reason(why.reason) {
	case queueing.QueueNotFound, queueing.NamespaceNotAccepted, queueing.PriorityNotAccepted, queueing.RuntimeTooLong:
		return true
	default:
		return false
	}
}

// limitRangeChanged wakes all tasks that the API server forbids Pods: it does not say because of
// which LimitRange.
func (t *Tasks) limitRangeChanged(limits *corev1.LimitRange, _ bool) {
	t.changed(func(why *cause) bool {
		return why.reason == reasonForbidden && why.namespace == limits.Namespace
	}, 0)
}

func (t *Tasks) priorityClassChanged(class *schedulingv1.PriorityClass, deleted bool) {
	t.changed(func(why *cause) bool {
		return !deleted && why.reason == reasonPriorityClassNotFound && why.text == missingClass(class.Name) ||
			class.GlobalDefault && why.reason == string(queueing.PriorityNotAccepted)
	}, 0)
}
