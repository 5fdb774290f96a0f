// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestConditionReader(t *testing.T) {
	t.Parallel()
	config, asked := apiServer(t, `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n"},"status":{"conditions":[`+
		`{"type":"Ready","status":"True"},{"type":"GPUHealthy","status":"False","reason":"NodeReboot"}]}}]}`)
	reader, err := NewConditionReader(config)
	if err != nil {
		t.Fatal(err)
	}
	got, err := reader.Read(t.Context(), "n", "GPUHealthy")
	if err != nil || got == nil || got.Status != "False" || got.Reason != "NodeReboot" {
		t.Errorf("%+v, error %v", got, err)
	}
	if got, err := reader.Read(t.Context(), "n", "Other"); got != nil || err != nil {
		t.Errorf("a condition that is not there: %+v, error %v", got, err)
	}
	// Without a resource version: what a cache has may be older than our own last write.
	want := request{method: http.MethodGet, path: "/api/v1/nodes", query: "fieldSelector=metadata.name%3Dn"}
	if diff := cmp.Diff([]request{want, want}, *asked, cmp.AllowUnexported(request{})); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestTheConditionsOfAMissingNode(t *testing.T) {
	t.Parallel()
	config, _ := apiServer(t, `{"kind":"NodeList","apiVersion":"v1","items":[]}`)
	reader, err := NewConditionReader(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Read(t.Context(), "n", "GPUHealthy"); err == nil || !strings.Contains(err.Error(), "there is no Node n") {
		t.Errorf("error %v", err)
	}
}

func TestTheMetadataClientPatchesStatus(t *testing.T) {
	t.Parallel()
	config, asked := apiServer(t, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"n"}}`)
	client, err := Metadata(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Resource(Nodes).Patch(t.Context(), "n", types.ApplyPatchType, []byte("{}"), metav1.PatchOptions{FieldManager: "x", Force: new(true)}, "status")
	if err != nil {
		t.Fatal(err)
	}
	want := []request{{http.MethodPatch, "/api/v1/nodes/n/status", "fieldManager=x&force=true", string(types.ApplyPatchType)}}
	if diff := cmp.Diff(want, *asked, cmp.AllowUnexported(request{})); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
