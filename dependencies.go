// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	taskscheme "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/scheme"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/leadership"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// dependencies are what the controller needs.
type dependencies struct {
	*caches
	clients      clients
	recorder     record.EventRecorder
	metrics      *controllerMetrics
	rescheduling rescheduling
	admissions   admissions
	// queueTree returns the GPUQueues; nil if there are none, or they are not known.
	queueTree func() *queueing.Tree
	// queuesKnown reports whether it is known which GPUQueues there are.
	queuesKnown func() bool
	clock       clock.WithTicker
}

// rescheduling is the controller's view of the rescheduler.
type rescheduling interface {
	// Steer makes a Pod that is moved prefer its destination.
	Steer(pod *corev1.Pod) error
	// Moves reports whether Pods of the task are being moved: that they are lost is then
	// expected.
	Moves(task types.UID) bool
	// Changed is called for every change of a task or one of its Pods.
	Changed()
}

// noRescheduling is used if rescheduling is disabled.
type noRescheduling struct{}

var _ rescheduling = noRescheduling{}

// Steer implements rescheduling.
func (noRescheduling) Steer(*corev1.Pod) error { return nil }

// Moves implements rescheduling.
func (noRescheduling) Moves(types.UID) bool { return false }

// Changed implements rescheduling.
func (noRescheduling) Changed() {}

// admissions is the controller's view of Kueue, to which tasks can be submitted.
type admissions interface {
	// Admission returns what Kueue says about a task with the given Pods, nil if it has nothing to do
	// with it; known is false if this can't be told yet.
	Admission(task *v1.GPUTask, pods []*corev1.Pod) (admission *gputask.Admission, known bool, err error)
	// Report tells Kueue the newest status of a task, and how many Pods it has: the given ones and those that the plan
	// creates.
	Report(ctx context.Context, task *v1.GPUTask, plan *gputask.Plan, pods []*corev1.Pod) error
	// Run watches what Kueue decides until ctx ends.
	Run(ctx context.Context)
}

// namespace returns a namespace; nil if the cache does not show it.
func (d *dependencies) namespace(name string) *corev1.Namespace {
	found, err := d.clusterInformers.Core().V1().Namespaces().Lister().Get(name)
	if err != nil {
		return nil
	}
	return found
}

// clients are the connections to the API server.
type clients struct {
	kube  kubernetes.Interface
	tasks clientset.Interface
	// lease has a rate limit of its own: a busy leader must still renew its lease in time.
	lease kubernetes.Interface
	// dynamic and discovery are for APIs that the cluster may lack; nil in tests without them.
	dynamic   dynamic.Interface
	discovery informer.Discoverer
	// unreadable is what none of them may read.
	unreadable unreadable
}

// newClients returns clients that write only while the guard's process leads.
func newClients(unfenced *rest.Config, guard *leadership.Guard) (clients, error) {
	config := rest.CopyConfig(unfenced)
	config.Wrap(guard.Fence)
	tasks, err := clientset.NewForConfig(config)
	if err != nil {
		return clients{}, err
	}
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf // built-in types only
	kube, err := kubernetes.NewForConfig(binary)
	if err != nil {
		return clients{}, err
	}
	election := rest.AddUserAgent(rest.CopyConfig(unfenced), "leader-election")
	election.ContentType = runtime.ContentTypeProtobuf
	lease, err := kubernetes.NewForConfig(election)
	if err != nil {
		return clients{}, err
	}
	others, err := dynamic.NewForConfig(config)
	return clients{kube: kube, tasks: tasks, lease: lease, dynamic: others, discovery: kube.Discovery()}, err
}

// newRecorder returns a recorder that keeps working while the controller shuts down, since
// the last tasks are still being handled then.
func newRecorder(ctx context.Context, clients clients) (record.EventRecorder, error) {
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), taskscheme.AddToScheme(types)); err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	broadcaster.StartStructuredLogging(4)
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.kube.CoreV1().Events("")})
	return broadcaster.NewRecorder(types, corev1.EventSource{Component: "gpu-controller"}), nil
}

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
