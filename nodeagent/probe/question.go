// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe serves how fast a node reaches a target, with the API of Prometheus'
// blackbox_exporter: GET /probe?target=TARGET&module=MODULE.
package probe

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultModule is the module of a request without one, as in blackbox_exporter.
const DefaultModule = "http_2xx"

// Question is a request to probe a target.
type Question struct {
	// Node is the node to probe from; empty for the only node of the process.
	Node string
	// Target is the target to reach.
	Target string
	// Module is the way to probe it.
	Module string
}

// Job is an accepted probe.
type Job struct {
	// Timeout is the module's timeout; 0 for none.
	Timeout time.Duration
	// Run probes until there is a result or ctx ends, and adds metrics to the registry.
	Run func(ctx context.Context, registry *prometheus.Registry) Result
}

// Result is the result of a probe.
type Result struct {
	// Reached is true if the target was reached as expected.
	Reached bool
	// Duration is how long it took; 0 to measure it. A simulation sets it, so that it does
	// not depend on how busy the machine is.
	Duration time.Duration
}

// Prober prepares probes.
type Prober interface {
	// Prepare checks a request. An error is a *RefusalError.
	Prepare(question Question) (*Job, error)
}

// RefusalError is why a request is refused.
type RefusalError struct {
	// Status is the HTTP status.
	Status int
	// Reason is the message for the client.
	Reason string
}

// Refuse returns a RefusalError.
func Refuse(status int, format string, values ...any) *RefusalError {
	return &RefusalError{Status: status, Reason: fmt.Sprintf(format, values...)}
}

// Error implements error.
func (r *RefusalError) Error() string { return r.Reason }

func parseQuestion(values url.Values) (Question, error) {
	question := Question{Node: values.Get("node"), Target: values.Get("target"), Module: values.Get("module")}
	if question.Target == "" {
		return question, Refuse(http.StatusBadRequest, "the parameter target is missing")
	}
	if values.Has("hostname") {
		// It would reach other sites at an allowed address.
		return question, Refuse(http.StatusBadRequest, "the parameter hostname of blackbox_exporter is not supported")
	}
	if question.Module == "" {
		question.Module = DefaultModule
	}
	return question, nil
}

// Off is a Prober that refuses all requests.
type Off struct {
	// Reason is the reason for it.
	Reason string
}

var _ Prober = Off{}

// Prepare implements Prober.
func (o Off) Prepare(Question) (*Job, error) {
	return nil, Refuse(http.StatusForbidden, "%s", o.Reason)
}
