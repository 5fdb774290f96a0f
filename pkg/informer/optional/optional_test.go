// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package optional

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/informer"
)

var widgets = schema.GroupVersion{Group: "example.com", Version: "v1"}

// limit is how long a test waits for a condition.
const limit = 30 * time.Second

// apiServer says which resources are served.
type apiServer struct {
	mu        sync.Mutex
	resources []string
	err       error
}

func (s *apiServer) serve(err error, resources ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources, s.err = resources, err
}

func (s *apiServer) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if s.resources == nil || groupVersion != widgets.String() {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
	}
	list := &metav1.APIResourceList{}
	for _, name := range s.resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, nil
}

func widget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": widgets.String(), "kind": "Widget", "metadata": map[string]any{"namespace": "default", "name": name},
	}}
}

// optionalFixture is an API that runs.
type optionalFixture struct {
	*API
	t       *testing.T
	client  *dynamicfake.FakeDynamicClient
	changes chan struct{}
	events  chan string
}

func startOptional(t *testing.T, server *apiServer, client *dynamicfake.FakeDynamicClient) *optionalFixture {
	t.Helper()
	f := &optionalFixture{t: t, client: client, changes: make(chan struct{}, 1000), events: make(chan string, 1000)}
	f.API = New(client, server, clock.RealClock{}, widgets, func() { f.changes <- struct{}{} }, Watched{
		Resource: "widgets", Transform: informer.WithoutManagedFields,
		Changed: func(object *unstructured.Unstructured, deleted bool) {
			if deleted {
				f.events <- "deleted " + object.GetName()
				return
			}
			f.events <- object.GetName()
		},
	})
	f.LookPeriod, f.RetryPeriod = time.Millisecond, time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		f.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return f
}

func newDynamic(objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{widgets.WithResource("widgets"): "WidgetList"}, objects...)
}

// becomes waits until the API has an availability.
func (f *optionalFixture) becomes(want Availability) {
	f.t.Helper()
	timeout := time.After(limit)
	for f.Availability() != want {
		select {
		case <-f.changes:
		case <-timeout:
			f.t.Fatalf("the availability is %d, want %d", f.Availability(), want)
		}
	}
}

func (f *optionalFixture) sees(want string) {
	f.t.Helper()
	select {
	case got := <-f.events:
		if got != want {
			f.t.Fatalf("saw %q, want %q", got, want)
		}
	case <-time.After(limit):
		f.t.Fatalf("did not see %q", want)
	}
}

func TestAnOptionalAPIComesAndGoes(t *testing.T) {
	t.Parallel()
	server := &apiServer{}
	f := startOptional(t, server, newDynamic(widget("first")))
	f.becomes(Absent)
	if len(f.List("widgets")) > 0 || f.Get("widgets", "default", "first") != nil {
		t.Error("there are objects of an API that is absent")
	}
	server.serve(nil, "gadgets")
	f.becomes(Absent)
	server.serve(nil, "gadgets", "widgets")
	f.becomes(Listed)
	f.sees("first")
	if len(f.List("widgets")) != 1 || f.Get("widgets", "default", "first") == nil {
		t.Error("an object is missing")
	}
	client := f.client.Resource(widgets.WithResource("widgets")).Namespace("default")
	if _, err := client.Create(t.Context(), widget("second"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.sees("second")
	if err := client.Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.sees("deleted first")
}

func TestAFailedLookSaysNothing(t *testing.T) {
	t.Parallel()
	server := &apiServer{}
	server.serve(errors.New("the API server is away"))
	f := startOptional(t, server, newDynamic())
	server.serve(nil, "widgets")
	f.becomes(Listed)
	select {
	case <-f.changes:
		t.Error("it became something else before it was listed")
	default:
	}
}

func TestAnOptionalAPIThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	server, client := &apiServer{}, newDynamic(widget("first"))
	server.serve(nil, "widgets")
	var mu sync.Mutex
	forbidden := true
	client.PrependReactor("list", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if forbidden {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "", errors.New("no right"))
		}
		return false, nil, nil
	})
	f := startOptional(t, server, client)
	f.becomes(Forbidden)
	mu.Lock()
	forbidden = false
	mu.Unlock()
	f.becomes(Listed)
	f.sees("first")
}
