// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/informer/optional"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

// limit is how long a test waits for a condition.
const limit = 30 * time.Second

// kueueAPI is an API server that serves Kueue's resources, or does not.
type kueueAPI struct{ installed bool }

func (k kueueAPI) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	if !k.installed || groupVersion != "kueue.x-k8s.io/v1beta2" {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "workloads"}, {Name: "workloads/status"}, {Name: "resourceflavors"}}}, nil
}

// fixture is Workloads that runs, with a fake API server.
type fixture struct {
	*Workloads
	t       *testing.T
	client  *dynamicfake.FakeDynamicClient
	classes cache.Indexer
	changes chan string
	// kube answers whether gpu-controller has rights: it has what mayList says.
	kube    *kubefake.Clientset
	mayList *atomic.Bool
}

func newFixture(t *testing.T, api informer.Discoverer, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{
		t: t, changes: make(chan string, 1000), kube: kubefake.NewClientset(), mayList: &atomic.Bool{},
		classes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			kueue.Resource(kueue.Workloads): "WorkloadList", kueue.Resource(kueue.ResourceFlavors): "ResourceFlavorList",
			kueue.Resource(kueue.WorkloadPriorityClasses): "WorkloadPriorityClassList",
		}, objects...),
	}
	f.kube.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review, ok := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		if !ok {
			return false, nil, nil
		}
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = f.mayList.Load() && asked.Verb == "list" && asked.Group == "kueue.x-k8s.io" && asked.Resource == "workloads"
		return true, review, nil
	})
	f.Workloads = New(Dependencies{
		Client: f.client, Discovery: api, Reviews: f.kube.AuthorizationV1().SelfSubjectAccessReviews(), Clock: clock.RealClock{}, Pods: gputask.PodDefaults{Image: "cuda"},
		Classes: schedulinglisters.NewPriorityClassLister(f.classes), ClassesSynced: func() bool { return true },
		Changed:    func(task cache.ObjectName) { f.changes <- task.String() },
		AllChanged: func() { f.changes <- "all" },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		f.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return f
}

func newTask(change ...func(*v1.GPUTask)) *v1.GPUTask {
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default", UID: "task-uid", Labels: map[string]string{kueue.LabelQueue: "team-a"}},
		Spec:       v1.GPUTaskSpec{GPUAmount: "1", Replicas: new(int32(2))},
	}
	for _, apply := range change {
		apply(task)
	}
	return task
}

// ready waits until it is known whether there is Kueue.
func (f *fixture) ready(task *v1.GPUTask) *gputask.Admission {
	f.t.Helper()
	timeout := time.After(limit)
	for {
		admission, known, err := f.Admission(task, nil)
		if err != nil {
			f.t.Fatal(err)
		}
		if known {
			return admission
		}
		select {
		case <-f.changes:
		case <-timeout:
			f.t.Fatal("it is not known whether there is Kueue")
		}
	}
}

// report brings the Workload of a task without Pods up to date.
func (f *fixture) report(task *v1.GPUTask) error {
	return f.Report(f.t.Context(), task, &gputask.Plan{Status: task.Status}, nil)
}

// shown waits until the cache shows the Workload of a task in a condition.
func (f *fixture) shown(task *v1.GPUTask, is func(*kueue.Workload) bool) *kueue.Workload {
	f.t.Helper()
	timeout := time.After(limit)
	for {
		workload, err := f.of(task)
		if err != nil {
			f.t.Fatal(err)
		}
		if is(workload) {
			return workload
		}
		select {
		case <-f.changes:
		case <-timeout:
			f.t.Fatalf("the Workload is %+v", workload)
		}
	}
}

func (f *fixture) requests(verb string) int {
	count := 0
	for _, action := range f.client.Actions() {
		if action.GetVerb() == verb {
			count++
		}
	}
	return count
}

// admitted waits until a task may start, or may not.
func (f *fixture) admitted(task *v1.GPUTask, want bool) *gputask.Admission {
	f.t.Helper()
	timeout := time.After(limit)
	for {
		admission := f.ready(task)
		if (admission == nil || admission.Admitted) == want {
			return admission
		}
		select {
		case <-f.changes:
		case <-timeout:
			f.t.Fatalf("the admission is %+v", admission)
		}
	}
}

// goneKueue is an API server that serves Kueue's resources until they are gone.
type goneKueue struct{ gone atomic.Bool }

func (k *goneKueue) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	return kueueAPI{installed: !k.gone.Load()}.ServerResourcesForGroupVersion(groupVersion)
}

func TestWithoutKueueNothingStartsWhereItIsExpected(t *testing.T) {
	t.Parallel()
	f := newFixture(t, kueueAPI{})
	f.mayList.Store(true)
	task := newTask()
	if admission := f.admitted(task, false); admission.Reason != "KueueNotServed" {
		t.Errorf("the task is held with %+v", admission)
	}
	running := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "train-0"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	if admission, known, err := f.Admission(task, []*corev1.Pod{running}); admission != nil || !known || err != nil {
		t.Errorf("a task that runs: %+v, %t, %v; want it to run on", admission, known, err)
	}
	f.mayList.Store(false) // somebody takes the rights back
	f.expected.forget()
	f.admitted(task, true)
}

func TestNothingStartsWhenKueueGoes(t *testing.T) {
	t.Parallel()
	api, watched := &goneKueue{}, watch.NewFake()
	f := newFixture(t, api)
	f.mayList.Store(true)
	f.api.RetryPeriod = time.Millisecond
	f.client.PrependWatchReactor("workloads", func(clienttesting.Action) (bool, watch.Interface, error) {
		if api.gone.Load() {
			return true, nil, apierrors.NewNotFound(schema.GroupResource{Group: "kueue.x-k8s.io", Resource: "workloads"}, "")
		}
		return true, watched, nil
	})
	task := newTask()
	f.admitted(task, false)
	api.gone.Store(true)
	watched.Stop()
	stop := time.After(limit)
	for {
		admission, known, err := f.Admission(task, nil)
		if err != nil || known && (admission == nil || admission.Admitted) {
			t.Fatalf("the task may start: %+v, %v", admission, err)
		}
		if known && admission.Reason == "KueueNotServed" {
			return
		}
		select {
		case <-f.changes:
		case <-time.After(10 * time.Millisecond):
		case <-stop:
			t.Fatalf("the admission is %+v", admission)
		}
	}
}

func TestATaskMustNotBeTouchedUntilItIsKnownWhetherKueueIsExpected(t *testing.T) {
	t.Parallel()
	f := newFixture(t, kueueAPI{})
	f.mayList.Store(true)
	var failures atomic.Int32
	f.kube.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		failures.Add(1)
		return failures.Load() == 1, nil, errors.New("down")
	})
	f.admitted(newTask(), false) // fails if it is ever admitted
	if failures.Load() < 2 {
		t.Error("the API server was not asked again")
	}
}

func TestATaskWithoutALabelCostsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, kueueAPI{installed: true})
	task := newTask(func(t *v1.GPUTask) { t.Labels = nil })
	if admission := f.ready(task); admission != nil {
		t.Errorf("got %+v", admission)
	}
	if err := f.report(task); err != nil {
		t.Fatal(err)
	}
	if actions := f.client.Actions(); len(actions) > 0 || f.api.Availability() != optional.Unknown {
		t.Errorf("requests: %v", actions)
	}
}

func TestWithoutKueueALabelChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, kueueAPI{})
	task := newTask()
	if admission := f.ready(task); admission != nil {
		t.Errorf("got %+v", admission)
	}
	if err := f.report(task); err != nil || len(f.client.Actions()) > 0 {
		t.Errorf("error %v, requests %v", err, f.client.Actions())
	}
}

func TestTheLifeOfAWorkload(t *testing.T) {
	t.Parallel()
	flavor := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": map[string]any{"name": "spot"},
		"spec": map[string]any{"nodeLabels": map[string]any{"pool": "spot"}},
	}}
	f := newFixture(t, kueueAPI{installed: true}, flavor)
	task := newTask()
	if admission := f.ready(task); admission == nil || admission.Admitted {
		t.Fatalf("without a Workload: %+v", admission)
	}
	if err := f.report(task); err != nil {
		t.Fatal(err)
	}
	workload := f.shown(task, func(w *kueue.Workload) bool { return w != nil })
	if workload.Spec.PodSets[0].Count != 2 || len(workload.Spec.PodSets[0].Template.Spec.Containers) != 0 {
		t.Errorf("the cache has the pod sets %+v", workload.Spec.PodSets)
	}

	f.admit(task)
	admission, _, err := f.Admission(task, nil)
	want := gputask.Grant{
		Pods: 2, NodeSelector: map[string]string{"pool": "spot"},
		Labels: map[string]string{kueue.LabelPodSet: "main"}, Annotations: map[string]string{kueue.AnnotationWorkload: workload.Name},
	}
	if err != nil || admission == nil || !admission.Admitted {
		t.Fatalf("got %+v, error %v", admission, err)
	}
	if diff := cmp.Diff(want, admission.Grants[""]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	task.Status.Phase = v1.PhaseSucceeded
	if err := f.report(task); err != nil {
		t.Fatal(err)
	}
	f.shown(task, func(w *kueue.Workload) bool {
		last := w.Status.Conditions[len(w.Status.Conditions)-1]
		return last.Type == kueue.Finished && last.Reason == "Succeeded"
	})
	if admission, known, err := f.Admission(task, nil); admission != nil || !known || err != nil {
		t.Errorf("of a finished task: %+v, %t, %v", admission, known, err)
	}
}

// admit admits the Workload of a task, as Kueue would.
func (f *fixture) admit(task *v1.GPUTask) {
	f.t.Helper()
	client := f.client.Resource(kueue.Resource(kueue.Workloads)).Namespace(task.Namespace)
	object, err := client.Get(f.t.Context(), kueue.WorkloadName(task), metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	condition := func(kind string) any {
		return map[string]any{"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-11-21T12:00:00Z"}
	}
	object.Object["status"] = map[string]any{
		"conditions": []any{condition(kueue.QuotaReserved), condition(kueue.Admitted)},
		"admission": map[string]any{"clusterQueue": "team-a", "podSetAssignments": []any{
			map[string]any{"name": "main", "count": int64(2), "flavors": map[string]any{"falldio.com/gpu": "spot"}},
		}},
	}
	if _, err := client.Update(f.t.Context(), object, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	f.shown(task, func(w *kueue.Workload) bool { return w.Status.Admission != nil })
}

func TestTheWorkloadOfASuspendedTaskGoesAndComesBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, kueueAPI{installed: true})
	task := newTask()
	f.ready(task)
	if err := f.report(task); err != nil {
		t.Fatal(err)
	}
	f.shown(task, func(w *kueue.Workload) bool { return w != nil })
	stopped := newTask(func(t *v1.GPUTask) { t.Spec.Suspend = new(true) })
	if admission := f.ready(stopped); admission != nil {
		t.Errorf("a task that its user has suspended: %+v", admission)
	}
	if err := f.report(stopped); err != nil {
		t.Fatal(err)
	}
	f.shown(task, func(w *kueue.Workload) bool { return w == nil })
	if err := f.report(task); err != nil {
		t.Fatal(err)
	}
	f.shown(task, func(w *kueue.Workload) bool { return w != nil })
}

func TestATaskThatLeavesKueueLosesItsWorkload(t *testing.T) {
	t.Parallel()
	f := newFixture(t, kueueAPI{installed: true})
	task := newTask()
	f.ready(task)
	if err := f.report(task); err != nil {
		t.Fatal(err)
	}
	f.shown(task, func(w *kueue.Workload) bool { return w != nil })
	free := newTask(func(t *v1.GPUTask) { t.Labels = nil })
	if err := f.report(free); err != nil {
		t.Fatal(err)
	}
	f.shown(task, func(w *kueue.Workload) bool { return w == nil })
}

func TestAForeignWorkloadIsNotTheTasks(t *testing.T) {
	t.Parallel()
	task := newTask()
	foreign := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
		"metadata": map[string]any{"namespace": "default", "name": kueue.WorkloadName(task), "labels": map[string]any{v1.LabelTask: "train"}},
		"spec":     map[string]any{"podSets": []any{}},
	}}
	f := newFixture(t, kueueAPI{installed: true}, foreign)
	f.ready(task)
	if err := f.report(task); !apierrors.IsAlreadyExists(errors.Unwrap(err)) {
		t.Errorf("got error %v", err)
	}
}

func TestPrioritiesInAQueue(t *testing.T) {
	t.Parallel()
	class := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": map[string]any{"name": "prod"}, "value": int64(7),
	}}
	f := newFixture(t, kueueAPI{installed: true}, class)
	for _, one := range []*schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 100},
		{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 10, GlobalDefault: true},
		{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Value: 20, GlobalDefault: true},
	} {
		if err := f.classes.Add(one); err != nil {
			t.Fatal(err)
		}
	}
	label := func(name string) func(*v1.GPUTask) {
		return func(t *v1.GPUTask) { t.Labels[kueue.LabelPriorityClass] = name }
	}
	priority := func(name string) func(*v1.GPUTask) { return func(t *v1.GPUTask) { t.Spec.Priority = name } }
	for name, c := range map[string]struct {
		change func(*v1.GPUTask)
		want   string
		value  int32
		err    string
	}{
		"the cluster's default":       {func(*v1.GPUTask) {}, "usual", 10, ""},
		"the task's":                  {priority("high"), "high", 100, ""},
		"the WorkloadPriorityClass's": {label("prod"), "prod", 7, ""},
		"a class that does not exist": {priority("none"), "", 0, `there is no PriorityClass "none"`},
		"a label that names no class": {label("none"), "", 0, `there is no WorkloadPriorityClass "none"`},
	} {
		got, err := f.priorityOf(t.Context(), newTask(c.change))
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got error %v", name, err)
			}
		case err != nil || got.Class == nil || got.Class.Name != c.want || got.Value != c.value:
			t.Errorf("%s: got %+v, error %v", name, got, err)
		}
	}
	f.deps.ClassesSynced = func() bool { return false }
	if _, err := f.priorityOf(t.Context(), newTask()); err == nil {
		t.Error("a priority was made up before the classes were listed")
	}
}

func TestWithoutTheRightToWorkloadsNothingStartsAndNothingStops(t *testing.T) {
	t.Parallel()
	f := newFixture(t, kueueAPI{installed: true})
	f.client.PrependReactor("list", "workloads", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "workloads"}, "", errors.New("no right"))
	})
	task := newTask()
	admission := f.ready(task)
	if admission == nil || admission.Admitted || !strings.Contains(admission.Message, "apply artifacts/kueue") {
		t.Errorf("a new task: %+v", admission)
	}
	pod, err := gputask.NewPod(task, 0, 0, gputask.PodDefaults{})
	if err != nil {
		t.Fatal(err)
	}
	if admission, known, err := f.Admission(task, []*corev1.Pod{pod}); admission != nil || !known || err != nil {
		t.Errorf("a task that runs: %+v, %t, %v", admission, known, err)
	}
	if f.requests("create") > 0 {
		t.Error("a Workload was created")
	}
}
