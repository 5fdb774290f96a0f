// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroups

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

const limit = 30 * time.Second

// recorder is a listener that remembers what it was told.
type recorder struct {
	mu     sync.Mutex
	states map[snapshot.GroupAPI]gangs.GroupsState
	groups map[snapshot.GroupRef]snapshot.PodGroup
	gone   []string
}

func (r *recorder) SetGroups(api snapshot.GroupAPI, state gangs.GroupsState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[api] = state
}

func (r *recorder) ObserveGroup(ref snapshot.GroupRef, group snapshot.PodGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups[ref] = group
}

func (r *recorder) ForgetGroup(ref snapshot.GroupRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, ref)
	r.gone = append(r.gone, ref.Name)
}

// told returns the state and the groups, sorted, with their minimum.
func (r *recorder) told(api snapshot.GroupAPI) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	state, known := r.states[api]
	words := []string{"nothing"}
	if known {
		words[0] = []string{"unknown", "listed", "absent", "forbidden"}[state]
	}
	refs := slices.SortedFunc(maps.Keys(r.groups), func(a, b snapshot.GroupRef) int { return strings.Compare(a.Gang(), b.Gang()) })
	for _, ref := range refs {
		words = append(words, fmt.Sprintf("%s/%s=%d", ref.Namespace, ref.Name, r.groups[ref].Min))
	}
	return strings.Join(words, " ")
}

// server is an API server that serves some versions of one API.
type server struct {
	mu     sync.Mutex
	served []string
	err    error
}

func (s *server) serve(err error, groupVersions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served, s.err = groupVersions, err
}

func (s *server) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return nil, s.err
	case !slices.Contains(s.served, groupVersion):
		return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
	}
	list := &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "priorityclasses"}, {Name: "podgroups"}, {Name: "podgroups/status"}}}
	if groupVersion == "scheduling.k8s.io/v1beta1" && slices.Contains(s.served, "only priority classes") {
		list.APIResources = list.APIResources[:1]
	}
	return list, nil
}

// newClient returns a client with some objects.
func newClient(objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	kinds := map[schema.GroupVersionResource]string{}
	for api, versions := range versions() {
		for _, version := range versions {
			kinds[schema.GroupVersionResource{Group: string(api), Version: version, Resource: resource}] = "PodGroupList"
		}
	}
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
}

func podGroup(apiVersion string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": "PodGroup", "metadata": map[string]any{"namespace": "default", "name": "train"}, "spec": spec,
	}}
}

func ofGang(minimum int64) map[string]any {
	return map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": minimum}}}
}

// fixture is a watcher that runs.
type fixture struct {
	*testing.T
	*recorder
	api    snapshot.GroupAPI
	client *dynamicfake.FakeDynamicClient
}

func start(t *testing.T, api snapshot.GroupAPI, server *server, client *dynamicfake.FakeDynamicClient) *fixture {
	t.Helper()
	f := &fixture{T: t, api: api, client: client, recorder: &recorder{states: map[snapshot.GroupAPI]gangs.GroupsState{}, groups: map[snapshot.GroupRef]snapshot.PodGroup{}}}
	w := &watcher{
		api: api, versions: versions()[api], discovery: server, client: client, clock: clock.RealClock{}, listener: f.recorder,
		lookPeriod: 10 * time.Millisecond, retryPeriod: 10 * time.Millisecond, known: map[snapshot.GroupRef]bool{},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		w.run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(limit):
			t.Error("the watcher does not end")
		}
	})
	return f
}

func (f *fixture) eventually(want string) {
	f.Helper()
	deadline := time.Now().Add(limit)
	for got := f.told(f.api); got != want; got = f.told(f.api) {
		if time.Now().After(deadline) {
			f.Fatalf("not within %v: told %q, want %q", limit, got, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (f *fixture) of(version string) dynamic.ResourceInterface {
	return f.client.Resource(schema.GroupVersionResource{Group: string(f.api), Version: version, Resource: resource}).Namespace("default")
}

func TestPodGroupsOfAllVersionsAreWatched(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		api    snapshot.GroupAPI
		served []string
		object *unstructured.Unstructured
	}{
		"Kubernetes 1.37":           {snapshot.KubernetesGroups, []string{"scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1"}, podGroup("scheduling.k8s.io/v1beta1", ofGang(3))},
		"Kubernetes 1.37's alpha":   {snapshot.KubernetesGroups, []string{"scheduling.k8s.io/v1beta1", "only priority classes", "scheduling.k8s.io/v1alpha3"}, podGroup("scheduling.k8s.io/v1alpha3", ofGang(3))},
		"Kubernetes 1.36":           {snapshot.KubernetesGroups, []string{"scheduling.k8s.io/v1alpha2"}, podGroup("scheduling.k8s.io/v1alpha2", ofGang(3))},
		"Volcano":                   {snapshot.VolcanoGroups, []string{"scheduling.volcano.sh/v1beta1"}, podGroup("scheduling.volcano.sh/v1beta1", map[string]any{"minMember": int64(3)})},
		"coscheduling":              {snapshot.CoschedulingGroups, []string{"scheduling.x-k8s.io/v1alpha1"}, podGroup("scheduling.x-k8s.io/v1alpha1", map[string]any{"minMember": int64(3)})},
		"coscheduling, former name": {snapshot.FormerCoschedulingGroups, []string{"scheduling.sigs.k8s.io/v1alpha1"}, podGroup("scheduling.sigs.k8s.io/v1alpha1", map[string]any{"minMember": int64(3)})},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served := &server{}
			served.serve(nil, test.served...)
			start(t, test.api, served, newClient(test.object)).eventually("listed default/train=3")
		})
	}
}

func TestChangesOfPodGroupsArePassedOn(t *testing.T) {
	t.Parallel()
	served := &server{}
	served.serve(nil, "scheduling.k8s.io/v1beta1")
	f := start(t, snapshot.KubernetesGroups, served, newClient())
	f.eventually("listed")
	groups := f.of("v1beta1")
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error {
			_, err := groups.Create(t.Context(), podGroup("scheduling.k8s.io/v1beta1", ofGang(2)), metav1.CreateOptions{})
			return err
		}, "listed default/train=2"},
		{func() error {
			_, err := groups.Update(t.Context(), podGroup("scheduling.k8s.io/v1beta1", ofGang(3)), metav1.UpdateOptions{})
			return err
		}, "listed default/train=3"},
		{func() error { return groups.Delete(t.Context(), "train", metav1.DeleteOptions{}) }, "listed"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		f.eventually(step.want)
	}
}

func TestAnAPIThatComesLaterIsFound(t *testing.T) {
	t.Parallel()
	served := &server{}
	f := start(t, snapshot.KubernetesGroups, served, newClient(podGroup("scheduling.k8s.io/v1alpha2", ofGang(3))))
	f.eventually("absent")
	served.serve(nil, "scheduling.k8s.io/v1alpha2")
	f.eventually("listed default/train=3")
}

func TestAServerThatDoesNotAnswerLeavesEverythingUnknown(t *testing.T) {
	t.Parallel()
	served := &server{}
	served.serve(errors.New("connection refused"))
	f := start(t, snapshot.KubernetesGroups, served, newClient())
	served.serve(nil, "scheduling.k8s.io/v1beta1")
	f.eventually("listed")
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.gone) > 0 {
		t.Errorf("these were forgotten: %v", f.gone)
	}
}

func TestAnAPIThatGoesTakesItsPodGroupsAlong(t *testing.T) {
	t.Parallel()
	served := &server{}
	served.serve(nil, "scheduling.volcano.sh/v1beta1")
	client := newClient(podGroup("scheduling.volcano.sh/v1beta1", map[string]any{"minMember": int64(3)}))
	first := make(chan *watch.RaceFreeFakeWatcher, 1)
	first <- watch.NewRaceFreeFake()
	ending := make(chan *watch.RaceFreeFakeWatcher, 1)
	client.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		select {
		case one := <-first:
			ending <- one
			return true, one, nil
		default:
			return true, nil, apierrors.NewNotFound(schema.GroupResource{Group: "scheduling.volcano.sh", Resource: resource}, "")
		}
	})
	f := start(t, snapshot.VolcanoGroups, served, client)
	f.eventually("listed default/train=3")
	served.serve(nil)
	(<-ending).Stop()
	f.eventually("absent")
}

func TestAForbiddenAPIIsReportedAndReadOnceItIsAllowed(t *testing.T) {
	t.Parallel()
	served := &server{}
	served.serve(nil, "scheduling.x-k8s.io/v1alpha1")
	client := newClient(podGroup("scheduling.x-k8s.io/v1alpha1", map[string]any{"minMember": int64(3)}))
	var mu sync.Mutex
	allowed := false
	client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		return !allowed, nil, apierrors.NewForbidden(schema.GroupResource{Group: "scheduling.x-k8s.io", Resource: resource}, "", errors.New("no"))
	})
	f := start(t, snapshot.CoschedulingGroups, served, client)
	f.eventually("forbidden")
	mu.Lock()
	allowed = true
	mu.Unlock()
	f.eventually("listed default/train=3")
}
