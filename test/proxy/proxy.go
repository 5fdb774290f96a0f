// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proxy puts a proxy between a program under test and the API server.
package proxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Start starts a proxy to the API server, and returns the path of a kubeconfig for it. The
// proxy listens on the loopback interface, has the rights of the given kubeconfig, and is
// stopped at the end of the test. around returns its handler; next forwards a request to
// the API server.
func Start(t *testing.T, kubeconfig string, around func(next http.Handler) http.Handler) (through string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	next := httputil.NewSingleHostReverseProxy(target)
	if next.Transport, err = rest.TransportFor(config); err != nil {
		t.Fatal(err)
	}
	next.FlushInterval = -1 // flush at once, for watches
	server := httptest.NewServer(around(next))
	t.Cleanup(server.CloseClientConnections)

	through = filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
		"users": [{"name": "x", "user": {}}], "clusters": [{"name": "x", "cluster": {"server": %q}}]}`, server.URL)
	if err := os.WriteFile(through, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return through
}

// Fail responds with an error in the format of the API server.
func Fail(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "message": "injected"}`, reason, code)
}
