// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admissioncheck

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpupods"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

// limit is how long a test waits for a condition.
const limit = 30 * time.Second

// kueueAPI is an API server that serves Kueue's resources.
type kueueAPI struct{}

func (kueueAPI) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "workloads"}, {Name: "resourceflavors"}, {Name: "admissionchecks"}}}, nil
}

func object(kind, name string, content map[string]any) *unstructured.Unstructured {
	all := map[string]any{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": map[string]any{"name": name, "uid": name}}
	maps.Copy(all, content)
	return &unstructured.Unstructured{Object: all}
}

func check(name, controller string) *unstructured.Unstructured {
	return object("AdmissionCheck", name, map[string]any{"spec": map[string]any{"controllerName": controller}})
}

// workload returns a Workload of Pods with 8 GPUs that has had quota for some time and asks checks.
func workload(name string, count int64, since time.Duration, checks ...string) *unstructured.Unstructured {
	at := time.Now().Add(-since).UTC().Format(time.RFC3339)
	states := []any{}
	for _, check := range checks {
		states = append(states, map[string]any{"name": check, "state": "Pending", "message": "", "lastTransitionTime": at})
	}
	gpus := map[string]any{"falldio.com/gpu": "8"}
	w := object("Workload", name, map[string]any{
		"spec": map[string]any{"podSets": []any{map[string]any{"name": "main", "count": count, "template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "main", "resources": map[string]any{"requests": gpus, "limits": gpus}}},
		}}}}},
		"status": map[string]any{
			"admissionChecks": states,
			"admission": map[string]any{"clusterQueue": "q", "podSetAssignments": []any{
				map[string]any{"name": "main", "count": count, "flavors": map[string]any{"falldio.com/gpu": "any"}},
			}},
			"conditions": []any{map[string]any{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "", "lastTransitionTime": at}},
		},
	})
	w.SetNamespace("default")
	return w
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{v1.ResourceGPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("110")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// fixture is a Check that runs, with a fake API server.
type fixture struct {
	t       *testing.T
	kube    *kubefake.Clientset
	dynamic *dynamicfake.FakeDynamicClient
}

func start(t *testing.T, nodes []runtime.Object, objects ...runtime.Object) *fixture {
	t.Helper()
	flavor := object("ResourceFlavor", "any", map[string]any{"spec": map[string]any{}})
	f := &fixture{t: t, kube: kubefake.NewClientset(nodes...), dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{
			kueue.Resource(kueue.Workloads): "WorkloadList", kueue.Resource(kueue.ResourceFlavors): "ResourceFlavorList",
			kueue.Resource(kueue.AdmissionChecks): "AdmissionCheckList",
		}, append(slices.Clone(objects), flavor)...)}
	options := DefaultOptions()
	options.Patience = time.Minute
	ofNodes, ofTasks := informers.NewSharedInformerFactory(f.kube, 0), informers.NewSharedInformerFactoryWithOptions(f.kube, 0,
		informers.WithTweakListOptions(func(list *metav1.ListOptions) { list.LabelSelector = v1.SelectorOfTasks }))
	pods, err := gpupods.New(t.Context(), gpupods.Dependencies{
		Kube: f.kube, NodeInformers: ofNodes, TaskPods: ofTasks.Core().V1().Pods(), Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(t.Context(), Dependencies{NodeInformers: ofNodes, Pods: pods, Dynamic: f.dynamic, Discovery: kueueAPI{}, Clock: clock.RealClock{}}, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ofTasks.StartWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() { pods.Run(ctx) })
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); ofTasks.Shutdown() })
	return f
}

// says waits until a check says something about a Workload, with a text.
func (f *fixture) says(name, check string, state kueue.CheckState, text string) *kueue.AdmissionCheckState {
	f.t.Helper()
	var got *kueue.AdmissionCheckState
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		object, err := f.dynamic.Resource(kueue.Resource(kueue.Workloads)).Namespace("default").Get(f.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			f.t.Fatal(err)
		}
		workload, err := kueue.Read[kueue.Workload](object)
		if err != nil {
			f.t.Fatal(err)
		}
		if got = workload.Check(check); got != nil && got.State == state && strings.Contains(got.Message, text) {
			return got
		}
	}
	f.t.Fatalf("check %s of %s says %+v, not %s: %s", check, name, got, state, text)
	return nil
}

func TestChecksAreAnswered(t *testing.T) {
	t.Parallel()
	f := start(t, []runtime.Object{node("node-1"), node("node-2")},
		check("gpu-fit", ControllerName), check("budget", "example.com/budget"),
		workload("fits", 1, time.Second, "budget", "gpu-fit"), workload("waits", 2, time.Second, "gpu-fit"),
		workload("gives-up", 3, time.Hour, "gpu-fit"), workload("other", 1, time.Second, "budget"))
	f.says("fits", "gpu-fit", kueue.CheckReady, "there is a place for all of its Pods now: 1 on node-")
	f.says("fits", "budget", kueue.CheckPending, "")
	f.says("waits", "gpu-fit", kueue.CheckPending, "there is no place for all of its Pods now")
	retry := f.says("gives-up", "gpu-fit", kueue.CheckRetry, "it would not fit even if nothing else ran")
	if retry.RequeueAfterSeconds == nil || *retry.RequeueAfterSeconds != 60 {
		t.Errorf("it queues again after %v seconds", retry.RequeueAfterSeconds)
	}
	f.says("other", "budget", kueue.CheckPending, "")
}

func TestAPodThatEndsAnswersWhoWaits(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "runs", Namespace: "default", UID: "uid"},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{v1.ResourceGPU: resource.MustParse("8")},
		}}}},
	}
	f := start(t, []runtime.Object{node("node-1"), pod}, check("gpu-fit", ControllerName), workload("waits", 1, time.Second, "gpu-fit"))
	f.says("waits", "gpu-fit", kueue.CheckPending, "there is no place")
	if err := f.kube.CoreV1().Pods("default").Delete(t.Context(), "runs", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.says("waits", "gpu-fit", kueue.CheckReady, "1 on node-1")
}

func TestAFreeNodeAnswersWhoWaits(t *testing.T) {
	t.Parallel()
	f := start(t, nil, check("gpu-fit", ControllerName), workload("waits", 1, time.Second, "gpu-fit"))
	f.says("waits", "gpu-fit", kueue.CheckPending, "there are no nodes")
	if _, err := f.kube.CoreV1().Nodes().Create(t.Context(), node("node-1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.says("waits", "gpu-fit", kueue.CheckReady, "1 on node-1")
}

func TestKueueIsToldThatTheCheckIsAnswered(t *testing.T) {
	t.Parallel()
	f := start(t, nil, check("gpu-fit", ControllerName), check("budget", "example.com/budget"))
	get := func(name string) string {
		object, err := f.dynamic.Resource(kueue.Resource(kueue.AdmissionChecks)).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		check, err := kueue.Read[kueue.AdmissionCheck](object)
		if err != nil {
			t.Fatal(err)
		}
		if len(check.Status.Conditions) == 0 {
			return ""
		}
		return check.Status.Conditions[0].Type + "=" + string(check.Status.Conditions[0].Status)
	}
	for deadline := time.Now().Add(limit); get("gpu-fit") != "Active=True"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("its condition is %q", get("gpu-fit"))
		}
	}
	if got := get("budget"); got != "" {
		t.Errorf("the condition of another controller's check is %q", got)
	}
}
