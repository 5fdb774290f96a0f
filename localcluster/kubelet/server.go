// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubelet is what KWOK lacks of the kubelets of simulated nodes: it serves the logs of containers and answers
// commands in them, and lets programs go on from what they have saved. Nothing runs on the machine for that.
package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/localcluster/training"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// Server is the part of the kubelets of all simulated nodes that the API server talks to.
type Server struct {
	Kube  kubernetes.Interface
	Tasks clientset.Interface
	// TLS says who may connect: nobody but the API server.
	TLS *tls.Config
	// PodDuration is how long Pods run that end and do not say when.
	PodDuration time.Duration
	Clock       clock.Clock
	// Trouble tells about something unexpected.
	Trouble func(format string, args ...any)

	checkpoints checkpoints
}

// Run serves the API server until ctx is done.
func (s *Server) Run(ctx context.Context, listener net.Listener) {
	// While the API server restarts, clients would log that they can't reach it.
	ctx = klog.NewContext(ctx, logr.Discard())
	go s.followCheckpoints(ctx)
	server := &http.Server{
		Handler: s.handler(), TLSConfig: s.TLS, ReadHeaderTimeout: time.Minute,
		ErrorLog: log.New(io.Discard, "", 0), BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		s.Trouble("serving the logs of Pods: %v", err)
	}
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.serveLogs)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", s.serveExec)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "simulated nodes offer logs and exec only", http.StatusNotImplemented)
	})
	return mux
}

// podOf returns the Pod that a request is about.
func (s *Server) podOf(r *http.Request) (*corev1.Pod, error) {
	return s.Kube.CoreV1().Pods(r.PathValue("namespace")).Get(r.Context(), r.PathValue("pod"), metav1.GetOptions{})
}

// logOf returns the log of a container of a Pod, or an error that says as a kubelet why there is none.
func (s *Server) logOf(pod *corev1.Pod, container string) (*training.Log, error) {
	status := podfacts.StatusOf(pod, container)
	switch {
	case training.Container(pod, container).Name == "":
		return nil, fmt.Errorf("container %q is not valid for pod %q", container, pod.Name)
	case status == nil:
		return nil, fmt.Errorf("container %q in pod %q is not available", container, pod.Name)
	case status.State.Waiting != nil:
		return nil, fmt.Errorf("container %q in pod %q is waiting to start: %s", container, pod.Name, status.State.Waiting.Reason)
	}
	for name, value := range s.checkpoints.resume(pod) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, name, value)
	}
	return training.LogOf(pod, container, training.Of(pod, s.PodDuration)), nil
}
