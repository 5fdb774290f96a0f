// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proxy puts a proxy between a program under test and the API server.
package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Server is a proxy that listens on the loopback interface.
type Server struct {
	// URL is its address.
	URL    string
	server *http.Server
}

// Listen serves a handler on a free port of the loopback interface.
func Listen(ctx context.Context, handler http.Handler) (*Server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until Close
	return &Server{URL: "http://" + listener.Addr().String(), server: server}, nil
}

// Close stops the proxy and breaks its connections, watches included.
func (s *Server) Close() error { return s.server.Close() }

// WriteKubeconfig writes a kubeconfig whose cluster is the proxy.
func (s *Server) WriteKubeconfig(path string) error {
	content := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
		"users": [{"name": "x", "user": {}}], "clusters": [{"name": "x", "cluster": {"server": %q}}]}`, s.URL)
	return os.WriteFile(path, []byte(content), 0o600)
}

// Forward returns a handler that forwards requests to the API server, with the rights of the
// given kubeconfig.
func Forward(kubeconfig string) (*httputil.ReverseProxy, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	next := httputil.NewSingleHostReverseProxy(target)
	if next.Transport, err = rest.TransportFor(config); err != nil {
		return nil, err
	}
	next.FlushInterval = -1 // flush at once, for watches
	return next, nil
}

// Start starts a proxy to the API server, and returns the path of a kubeconfig for it. The
// proxy listens on the loopback interface, has the rights of the given kubeconfig, and is
// stopped at the end of the test. around returns its handler; next forwards a request to
// the API server.
func Start(t *testing.T, kubeconfig string, around func(next http.Handler) http.Handler) (through string) {
	t.Helper()
	next, err := Forward(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	server, err := Listen(context.WithoutCancel(t.Context()), around(next))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("closing the proxy: %v", err)
		}
	})
	through = filepath.Join(t.TempDir(), "kubeconfig")
	if err := server.WriteKubeconfig(through); err != nil {
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
