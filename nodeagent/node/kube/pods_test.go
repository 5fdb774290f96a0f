// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

func limits(gpus string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{"falldio.com/gpu": resource.MustParse(gpus)},
		Requests: corev1.ResourceList{"falldio.com/gpu": resource.MustParse(gpus), corev1.ResourceCPU: resource.MustParse("1")},
	}
}

func TestStripPod(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	started := metav1.NewTime(time.Unix(1_700_000_000, 0))
	meta := metav1.ObjectMeta{
		Namespace: "research", Name: "train", UID: "uid-1", ResourceVersion: "7",
		Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"falldio.com/gpu-assignment": "{}"},
		DeletionTimestamp: &started,
	}
	tests := map[string]struct{ pod, want corev1.Pod }{
		"who it is, and what others have noted on it, stays": {
			corev1.Pod{ObjectMeta: meta}, corev1.Pod{ObjectMeta: meta},
		},
		"managed fields go": {
			corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "train", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}},
			corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "train"}},
		},
		"of containers stays what they ask for": {
			corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "default", Containers: []corev1.Container{
				{Name: "main", Image: "cuda", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}, Resources: limits("2")},
				{Name: "sidecar", Image: "proxy"},
			}}},
			corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{
				{Name: "main", Resources: limits("2")}, {Name: "sidecar"},
			}}},
		},
		"of init containers stays whether they run on": {
			corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{
				{Name: "prepare", Image: "cuda", Resources: limits("4")},
				{Name: "proxy", Image: "proxy", RestartPolicy: &always, Resources: limits("1")},
			}}},
			corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{
				{Name: "prepare", Resources: limits("4")}, {Name: "proxy", RestartPolicy: &always, Resources: limits("1")},
			}}},
		},
		"of the status stays what the Pod does": {
			corev1.Pod{Status: corev1.PodStatus{
				Phase: corev1.PodPending, StartTime: &started, HostIP: "10.0.0.1", Message: "waiting",
				Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: started}},
			}},
			corev1.Pod{Status: corev1.PodStatus{
				Phase: corev1.PodPending, StartTime: &started,
				Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: started}},
			}},
		},
		"of its containers stays which they are": {
			corev1.Pod{Status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "prepare", ContainerID: "containerd://1", RestartCount: 3}},
				ContainerStatuses:     []corev1.ContainerStatus{{Name: "main", ContainerID: "containerd://2", ImageID: "sha256:1", Ready: true}},
			}},
			corev1.Pod{Status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "prepare", ContainerID: "containerd://1"}},
				ContainerStatuses:     []corev1.ContainerStatus{{Name: "main", ContainerID: "containerd://2"}},
			}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := stripPod(&test.pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStripPodPassesOnWhatInformersKeepBesidePods(t *testing.T) {
	t.Parallel()
	if got, err := stripPod("tombstone"); got != "tombstone" || err != nil {
		t.Errorf("something else became %v, error %v", got, err)
	}
}

// TestOnlyThePodsOfTheNodeAreRequested: the agent's token may list those of all nodes, as RBAC has
// no field selectors.
func TestOnlyThePodsOfTheNodeAreRequested(t *testing.T) {
	t.Parallel()
	selectors := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case selectors <- r.URL.Query().Get("fieldSelector"):
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
	}))
	t.Cleanup(server.Close)
	pods, err := NewPodInformer(&rest.Config{Host: server.URL}, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { pods.Run(ctx) })
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	for range 2 { // one lists, the other watches
		select {
		case selector := <-selectors:
			if selector != "spec.nodeName=node-1" {
				t.Errorf("requested Pods with the field selector %q", selector)
			}
		case <-time.After(time.Minute):
			t.Fatal("no request within a minute")
		}
	}
}
