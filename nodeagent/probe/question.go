// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe answers how fast a node reaches a target, in the words of
// Prometheus' blackbox_exporter: GET /probe?target=TARGET&module=MODULE.
package probe

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultModule is meant when a request names none, as by blackbox_exporter.
const DefaultModule = "http_2xx"

// Question is what is asked.
type Question struct {
	// Node is who shall answer; empty for the only node of the process.
	Node string
	// Target is what to reach.
	Target string
	// Module is how.
	Module string
}

// Job is a probe that may be run.
type Job struct {
	// Timeout is what the module wants; 0 for no wish.
	Timeout time.Duration
	// Run probes until it knows or ctx ends, and adds metrics to the registry.
	Run func(ctx context.Context, registry *prometheus.Registry) Result
}

// Result is what came out of a probe.
type Result struct {
	// Reached is true if the target was reached as it should be.
	Reached bool
	// Duration is how long it took, if it is not to be measured: that of a
	// simulation must not depend on how busy the machine is.
	Duration time.Duration
}

// Prober knows what may be probed and how.
type Prober interface {
	// Prepare checks a question. An error is a *RefusalError.
	Prepare(question Question) (*Job, error)
}

// RefusalError says why a question is not answered.
type RefusalError struct {
	// Status is the HTTP status.
	Status int
	// Reason is for the one who asks.
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
		// It would reach other sites behind an address that is allowed.
		return question, Refuse(http.StatusBadRequest, "the parameter hostname of blackbox_exporter is not supported")
	}
	if question.Module == "" {
		question.Module = DefaultModule
	}
	return question, nil
}

// Off refuses everything.
type Off struct {
	// Reason is why.
	Reason string
}

var _ Prober = Off{}

// Prepare implements Prober.
func (o Off) Prepare(Question) (*Job, error) {
	return nil, Refuse(http.StatusForbidden, "%s", o.Reason)
}
