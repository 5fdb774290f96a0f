// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestContainerRuntime(t *testing.T) {
	t.Parallel()
	config, asked := apiServer(t, `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n"},"status":{"nodeInfo":{"containerRuntimeVersion":"containerd://2.1.4"}}}]}`)
	got, err := ContainerRuntime(t.Context(), config, "n")
	if got != "containerd://2.1.4" || err != nil {
		t.Errorf("%q, error %v", got, err)
	}
	// Only what RBAC permits: list.
	want := []request{{method: http.MethodGet, path: "/api/v1/nodes", query: "fieldSelector=metadata.name%3Dn"}}
	if diff := cmp.Diff(want, *asked, cmp.AllowUnexported(request{})); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestTheContainerRuntimeOfAMissingNode(t *testing.T) {
	t.Parallel()
	config, _ := apiServer(t, `{"kind":"NodeList","apiVersion":"v1","items":[]}`)
	if _, err := ContainerRuntime(t.Context(), config, "n"); err == nil || !strings.Contains(err.Error(), "there is no Node n") {
		t.Errorf("error %v", err)
	}
}
