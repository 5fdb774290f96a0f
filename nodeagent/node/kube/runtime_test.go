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

func TestTheContainerRuntimeIsUnknown(t *testing.T) {
	t.Parallel()
	node := func(version string) string {
		return `{"metadata":{"name":"n"},"status":{"nodeInfo":{"containerRuntimeVersion":"` + version + `"}}}`
	}
	for name, test := range map[string]struct{ node, want string }{
		"the Node is missing":                               {"", "there is no Node n"},
		"the kubelet has written nothing yet":               {node(""), "the kubelet has not written its container runtime to Node n"},
		"the kubelet was started while the runtime is down": {node("containerd://Unknown"), `the kubelet has not written its container runtime to Node n yet, only "containerd://Unknown"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, _ := apiServer(t, `{"kind":"NodeList","apiVersion":"v1","items":[`+test.node+`]}`)
			if _, err := ContainerRuntime(t.Context(), config, "n"); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}
