// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/pprof"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/certificate"
	"falldio.github.io/gpu-controller/pkg/tokenreview"
)

// Options are the flags that say who may read what a Server serves.
type Options struct {
	secure, profiling bool
	certFile, keyFile string
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.secure, "metrics-secure", o.secure,
		"serve HTTPS, and /metrics only to who has a token that may get it, as the API server says; /healthz and /readyz need no token")
	flags.StringVar(&o.certFile, "tls-cert-file", o.certFile,
		"with --metrics-secure: file with the certificate, which is reloaded when it changes (default: a self-signed certificate, made at the start)")
	flags.StringVar(&o.keyFile, "tls-private-key-file", o.keyFile, "with --metrics-secure: file with the private key of the certificate")
	flags.BoolVar(&o.profiling, "profiling", o.profiling,
		"serve Go's profiles under /debug/pprof/: with --metrics-secure to who has a token that may get them, otherwise only to clients on the same machine, such as kubectl port-forward")
}

// Validate calls require with each condition of the options.
func (o *Options) Validate(require func(holds bool, format string, values ...any)) {
	require(o.secure || o.certFile == "" && o.keyFile == "", "--tls-cert-file and --tls-private-key-file are for --metrics-secure")
	require((o.certFile == "") == (o.keyFile == ""), "--tls-cert-file and --tls-private-key-file must be used together")
}

// protection returns what protects what not everybody may read: metrics, and profiles.
func (o *Options) protection(kube *rest.Config) (metrics, profiles func(http.Handler) http.Handler, err error) {
	if !o.secure {
		return func(all http.Handler) http.Handler { return all }, OnlyLoopback, nil
	}
	gate, err := tokenreview.New(kube, clock.RealClock{})
	if err != nil {
		return nil, nil, err
	}
	return gate.Protect, gate.Protect, nil
}

// encryption returns how a Server encrypts, nil for not at all, and how a sentence about it ends.
func (o *Options) encryption(ctx context.Context) (*tls.Config, string, error) {
	if !o.secure {
		return nil, "without TLS", nil
	}
	logger := klog.FromContext(ctx)
	shown := &certificate.Options{
		CertFile: o.certFile, KeyFile: o.keyFile, Name: "metrics", Clock: clock.RealClock{},
		Renewed: func(description string) { logger.Info("The certificate was renewed", "tls", description) },
	}
	return shown.Config()
}

// profiles serves Go's profiles.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
