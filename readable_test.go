// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// readable returns what a controller finds that may list only some resources outside of its namespace, and how often it
// has asked.
func readable(ctx context.Context, namespace string, resources ...string) (unreadable, int, error) {
	kube, first := kubefake.NewClientset(), true
	kube.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if first {
			first = false
			return true, nil, errors.New("the API server is starting")
		}
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		asked := review.Spec.ResourceAttributes
		if asked.Namespace != "" || asked.Verb != "list" {
			return true, nil, errors.New("it asks for something else")
		}
		review.Status.Allowed = slices.Contains(resources, asked.Resource)
		return true, review, nil
	})
	found, err := findUnreadable(ctx, namespace, kube.AuthorizationV1().SelfSubjectAccessReviews())
	return found, len(kube.Actions()), err
}

func TestWhatAControllerOfOneNamespaceMayNotRead(t *testing.T) {
	t.Parallel()
	causes := []string{
		"namespaces", "priorityclasses", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations", "mutatingwebhookconfigurations",
	}
	for name, test := range map[string]struct {
		may  []string
		want unreadable
	}{
		"nothing":                {nil, unreadable{nodes: true, queues: true, causes: true, plans: true}},
		"Nodes":                  {[]string{"nodes"}, unreadable{queues: true, causes: true, plans: true}},
		"queues, not namespaces": {[]string{"gpuqueues"}, unreadable{nodes: true, queues: true, causes: true, plans: true}},
		"all that may refuse":    {causes, unreadable{nodes: true, queues: true, plans: true}},
		"everything":             {append([]string{"nodes", "gpuqueues", "moveplans", "poddisruptionbudgets"}, causes...), unreadable{}},
	} {
		found, _, err := readable(t.Context(), "team", test.may...)
		if diff := cmp.Diff(test.want, found, cmp.AllowUnexported(unreadable{})); diff != "" || err != nil {
			t.Errorf("who may read %s: error %v (-want +got):\n%s", name, err, diff)
		}
	}
	if found, asked, err := readable(t.Context(), ""); asked > 0 || err != nil || found != (unreadable{}) {
		t.Errorf("a controller of all namespaces has asked %d times: %+v, %v", asked, found, err)
	}
}

func TestAControllerThatMayNotReadNodesDoesNotAskForThem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.process.clients.unreadable.nodes = true
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	if !f.process.otherNodes(t.Context(), pod, nil) {
		t.Error("no other nodes are left, though that is not known")
	}
	if reason := f.process.evictedFor(t.Context(), "uid", pod); reason != v1.InterruptionEvicted {
		t.Errorf("the Pod is gone because of %s", reason)
	}
	for _, action := range f.kube.Actions() {
		if action.GetResource().Resource == "nodes" {
			t.Errorf("it asked: %s nodes", action.GetVerb())
		}
	}
}
