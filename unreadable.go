// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// askAgain is how soon a question is repeated that the API server has not answered.
const askAgain = time.Second

// unreadable is what a controller of one namespace may not read outside of it, and so does not ask for.
type unreadable struct {
	nodes, queues, causes, plans bool
}

// scope is something outside of a namespace, what of it is read, and what a controller does without it.
type scope struct {
	unreadable *bool
	resources  []schema.GroupResource
	without    string
}

// scopes returns all that is outside of a namespace.
func (u *unreadable) scopes() []scope {
	const admission = "admissionregistration.k8s.io"
	nodes, namespaces := schema.GroupResource{Resource: "nodes"}, schema.GroupResource{Resource: "namespaces"}
	return []scope{
		{&u.nodes, []schema.GroupResource{nodes},
			"the status of tasks does not say that a node is not ready, no Pod on an unreachable node is deleted by force, and Pods that were drained count as evicted"},
		{&u.causes, []schema.GroupResource{
			namespaces, {Group: "scheduling.k8s.io", Resource: "priorityclasses"},
			{Group: admission, Resource: "validatingadmissionpolicies"}, {Group: admission, Resource: "validatingadmissionpolicybindings"},
			{Group: admission, Resource: "validatingwebhookconfigurations"}, {Group: admission, Resource: "mutatingwebhookconfigurations"},
		}, "Pods that were refused for a cause outside of the namespace are tried again every minute, and not at once when the cause is gone"},
		{&u.queues, []schema.GroupResource{namespaces, {Group: v1.GroupName, Resource: "gpuqueues"}},
			"the run times that GPUQueues allow are not enforced, and tasks that may not use their queue get Pods, which wait"},
		{&u.plans, []schema.GroupResource{nodes, {Group: v1.GroupName, Resource: "moveplans"}, {Group: "policy", Resource: "poddisruptionbudgets"}},
			"--reschedule-period has no effect: no Pods are moved"},
	}
}

// findUnreadable asks the API server what a controller of one namespace may not read, and logs it. One of all
// namespaces has all rights that it needs.
func findUnreadable(ctx context.Context, namespace string, reviews authorizationclient.SelfSubjectAccessReviewInterface) (u unreadable, err error) {
	if namespace == "" {
		return u, nil
	}
	for _, scope := range u.scopes() {
		var refused []string
		for _, resource := range scope.resources {
			allowed, err := mayList(ctx, resource, reviews)
			if err != nil {
				return u, err
			}
			if !allowed {
				refused = append(refused, resource.String())
			}
		}
		if *scope.unreadable = len(refused) > 0; *scope.unreadable {
			klog.FromContext(ctx).Info("This controller of one namespace may not list what is outside of it: "+scope.without,
				"namespace", namespace, "resources", strings.Join(refused, ", "))
		}
	}
	return u, nil
}

// mayList asks until the API server answers. It fails if ctx ends first.
func mayList(ctx context.Context, resource schema.GroupResource, reviews authorizationclient.SelfSubjectAccessReviewInterface) (allowed bool, err error) {
	asked := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: resource.Group, Resource: resource.Resource},
	}}
	err = wait.PollUntilContextCancel(ctx, askAgain, true, func(ctx context.Context) (bool, error) {
		review, err := reviews.Create(ctx, asked, metav1.CreateOptions{})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Whether this controller may list something outside of its namespace is not known; trying again", "resource", resource)
			return false, nil
		}
		allowed = review.Status.Allowed
		return true, nil
	})
	return allowed, err
}
