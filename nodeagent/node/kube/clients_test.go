// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// request is what an API server was asked.
type request struct{ method, path, query, contentType string }

// apiServer answers every request with the same object and records the requests.
func apiServer(t *testing.T, answer string) (*rest.Config, *[]request) {
	t.Helper()
	var asked []request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type")})
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		if _, err := w.Write([]byte(answer)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, &asked
}

func TestEventsAreWritten(t *testing.T) {
	t.Parallel()
	config, asked := apiServer(t, `{"kind":"Event","apiVersion":"v1","metadata":{"name":"e","namespace":"default","resourceVersion":"5"}}`)
	var nodes []string
	events := &sink{ctx: t.Context(), newClient: func(node string) (rest.Interface, error) {
		nodes = append(nodes, node)
		return core(config, newScheme())
	}}
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"}, Reason: "GPUHealthy", Source: corev1.EventSource{Host: "n"}}
	for name, write := range map[string]func() (*corev1.Event, error){
		"Create": func() (*corev1.Event, error) { return events.Create(event) },
		"Update": func() (*corev1.Event, error) { return events.Update(event) },
		"Patch":  func() (*corev1.Event, error) { return events.Patch(event, []byte(`{"count":2}`)) },
	} {
		*asked = nil
		got, err := write()
		if err != nil || got.ResourceVersion != "5" {
			t.Errorf("%s: error %v, the Event is %v", name, err, got)
		}
		want := map[string][]request{
			"Create": {{http.MethodPost, "/api/v1/namespaces/default/events", "", runtime.ContentTypeProtobuf}},
			"Update": {{http.MethodPut, "/api/v1/namespaces/default/events/e", "", runtime.ContentTypeProtobuf}},
			"Patch":  {{http.MethodPatch, "/api/v1/namespaces/default/events/e", "", string(types.StrategicMergePatchType)}},
		}[name]
		if diff := cmp.Diff(want, *asked, cmp.AllowUnexported(request{})); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]string{"n"}, nodes); diff != "" {
		t.Errorf("clients were made for the nodes (-want +got):\n%s", diff)
	}
}

func TestPatchPod(t *testing.T) {
	t.Parallel()
	config, asked := apiServer(t, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"train","namespace":"research"}}`)
	client, err := Metadata(config)
	if err != nil {
		t.Fatal(err)
	}
	patch := PatchPod(client, "nodeagent")
	if err := patch(t.Context(), types.NamespacedName{Namespace: "research", Name: "train"}, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	want := []request{{http.MethodPatch, "/api/v1/namespaces/research/pods/train", "fieldManager=nodeagent", string(types.MergePatchType)}}
	if diff := cmp.Diff(want, *asked, cmp.AllowUnexported(request{})); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
