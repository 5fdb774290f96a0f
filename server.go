// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
)

const (
	readHeaderTimeout = 5 * time.Second
	serverStopTimeout = 5 * time.Second
)

// server answers Prometheus and the kubelet's probes.
type server struct {
	address string
	handler http.Handler
}

// newServer serves at address, or nowhere if that is "0" or empty. alive is
// the leader election's health check.
func newServer(address string, metrics *controllerMetrics, ready *atomic.Bool, alive func(*http.Request) error) *server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		answer(w, alive(r))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			answer(w, errors.New("the caches are not filled yet"))
			return
		}
		answer(w, nil)
	})
	return &server{address: address, handler: mux}
}

func answer(w http.ResponseWriter, problem error) {
	if problem != nil {
		http.Error(w, problem.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// serve returns when ctx ends and the last request is answered.
func (s *server) serve(ctx context.Context) error {
	if s.address == "" || s.address == "0" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("--metrics-bind-address: %w", err)
	}
	klog.FromContext(ctx).Info("Serving /metrics, /healthz and /readyz", "address", listener.Addr().String())
	httpServer := &http.Server{Handler: s.handler, ReadHeaderTimeout: readHeaderTimeout}
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
