// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoints serves the HTTP endpoints that all our processes have: /metrics for
// Prometheus, /healthz and /readyz for the kubelet.
package endpoints

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	readHeaderTimeout = 5 * time.Second
	serverStopTimeout = 5 * time.Second
)

// Check returns an error if something is wrong.
type Check func(*http.Request) error

// Settings say where a Server listens, and who may read what.
type Settings struct {
	Options
	// Address is where it listens, nowhere if that is "0" or empty; Flag is the name of the flag with it.
	Flag, Address string
	// Kube is the API server that is asked who may read what.
	Kube *rest.Config
}

// Server answers Prometheus and the kubelet's probes.
type Server struct {
	settings Settings
	mux      *http.ServeMux
}

// New returns a Server.
func New(settings Settings, metrics http.Handler, alive, ready Check) (*Server, error) {
	ofMetrics, ofProfiles, err := settings.protection(settings.Kube)
	if err != nil {
		return nil, err
	}
	s := &Server{settings: settings, mux: http.NewServeMux()}
	s.Handle("GET /metrics", ofMetrics(metrics))
	s.Handle("GET /healthz", probe(alive))
	s.Handle("GET /readyz", probe(ready))
	if settings.profiling {
		s.Handle("GET /debug/pprof/", ofProfiles(profiles()))
	}
	return s, nil
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

// Serve serves until ctx ends and the last request is answered, unless that takes long, as a profile may.
func (s *Server) Serve(ctx context.Context) error {
	if s.settings.Address == "" || s.settings.Address == "0" {
		return nil
	}
	encryption, description, err := s.settings.encryption(ctx)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.settings.Address)
	if err != nil {
		return fmt.Errorf("--%s: %w", s.settings.Flag, err)
	}
	klog.FromContext(ctx).Info("Serving /metrics, /healthz and /readyz", "address", listener.Addr().String(), "tls", description)
	if encryption != nil {
		listener = tls.NewListener(listener, encryption)
	}
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
		if err := httpServer.Shutdown(stopping); err != nil {
			return httpServer.Close()
		}
		return nil
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
