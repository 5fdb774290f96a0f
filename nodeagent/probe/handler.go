// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"
)

// Config configures a Handler.
type Config struct {
	Prober Prober
	Clock  clock.PassiveClock
	// Limit is how many probes may run concurrently; more are refused.
	Limit int
	// Timeout is the maximum duration of a probe.
	Timeout time.Duration
}

// Handler serves /probe.
type Handler struct {
	config Config
	// running has an element for each running probe.
	running chan struct{}
	probes  *prometheus.CounterVec
}

// The values of the label result of nodeagent_probes_total.
const (
	resultSuccess = "success" // the target was reached as expected
	resultFailure = "failure" // it was not, or not in time
	resultRefused = "refused" // the request was wrong or not allowed
	resultBusy    = "busy"    // too many probes were running
)

// New returns a Handler.
func New(config Config) *Handler {
	return &Handler{
		config: config, running: make(chan struct{}, config.Limit),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodeagent_probes_total",
			Help: "Requests to probe a target, by result: success, failure, refused, busy.",
		}, []string{"result"}),
	}
}

// Collector returns the Handler's metrics.
func (h *Handler) Collector() prometheus.Collector { return h.probes }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	registry, result, err := h.probe(r)
	h.probes.WithLabelValues(result).Inc()
	if err == nil {
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
		return
	}
	status := http.StatusInternalServerError
	var refusal *RefusalError
	if errors.As(err, &refusal) {
		status = refusal.Status
	}
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, err.Error(), status)
}

// probe returns the metrics for a request, or an error, and the value of the label result.
func (h *Handler) probe(r *http.Request) (*prometheus.Registry, string, error) {
	question, err := parseQuestion(r.URL.Query())
	if err != nil {
		return nil, resultRefused, err
	}
	job, err := h.config.Prober.Prepare(question)
	if err != nil {
		return nil, resultRefused, err
	}
	timeout, err := h.timeout(job, r.Header)
	if err != nil {
		return nil, resultRefused, err
	}
	select {
	case h.running <- struct{}{}:
		defer func() { <-h.running }()
	default:
		return nil, resultBusy, Refuse(http.StatusTooManyRequests, "%d probes run already: try again later", h.config.Limit)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	registry, success := h.run(ctx, job)
	if !success {
		return registry, resultFailure, nil
	}
	return registry, resultSuccess, nil
}

// run probes and adds the metrics that blackbox_exporter has for every probe.
func (h *Handler) run(ctx context.Context, job *Job) (*prometheus.Registry, bool) {
	success := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "probe_success", Help: "Displays whether or not the probe was a success",
	})
	duration := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "probe_duration_seconds", Help: "Returns how long the probe took to complete in seconds",
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(success, duration)
	begin := h.config.Clock.Now()
	result := job.Run(ctx, registry)
	if result.Duration == 0 {
		result.Duration = h.config.Clock.Since(begin)
	}
	duration.Set(result.Duration.Seconds())
	if result.Reached {
		success.Set(1)
	}
	return registry, result.Reached
}
