// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoints serves the HTTP endpoints that all our processes have: /metrics for
// Prometheus, /healthz and /readyz for the kubelet.
package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	readHeaderTimeout = 5 * time.Second
	serverStopTimeout = 5 * time.Second
)

// Check returns an error if something is wrong.
type Check func(*http.Request) error

// Server answers Prometheus and the kubelet's probes.
type Server struct {
	flag    string
	address string
	mux     *http.ServeMux
}

// New returns a Server for an address; it does not listen if that is "0" or empty. flag is
// the name of the flag with the address.
func New(flag, address string, metrics http.Handler, alive, ready Check) *Server {
	s := &Server{flag: flag, address: address, mux: http.NewServeMux()}
	s.Handle("GET /metrics", metrics)
	s.Handle("GET /healthz", probe(alive))
	s.Handle("GET /readyz", probe(ready))
	return s
}

// Handle adds a handler. It must be called before Serve.
func (s *Server) Handle(pattern string, handler http.Handler) { s.mux.Handle(pattern, handler) }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func probe(check Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if problem := check(r); problem != nil {
			http.Error(w, problem.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// Serve serves until ctx ends and the last request is answered.
func (s *Server) Serve(ctx context.Context) error {
	if s.address == "" || s.address == "0" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("--%s: %w", s.flag, err)
	}
	klog.FromContext(ctx).Info("Serving /metrics, /healthz and /readyz", "address", listener.Addr().String())
	httpServer := &http.Server{Handler: s, ReadHeaderTimeout: readHeaderTimeout}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := httpServer.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving metrics: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), serverStopTimeout)
		defer cancel()
		return httpServer.Shutdown(stopping)
	})
	return group.Wait()
}

// ProbePath is where a node agent reports how fast its node reaches a target.
const ProbePath = "/probe"

// AnnotationProbeURL is the annotation of a Node with the URL of its agent's ProbePath, if
// that can't be reached at the Node's internal address. The query may have parameters;
// target and module are added.
const AnnotationProbeURL = v1.GroupName + "/probe-url"

// OnlyLoopback serves requests from this machine and rejects all others.
func OnlyLoopback(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !from.Addr().Unmap().IsLoopback() {
			http.Error(w, "only for clients on the same machine", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
