// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Result is the outcome of asking an agent.
type Result string

// The results of asking, which are values of the label result of
// gpu_scheduler_network_probes_total.
const (
	// Reached means that the node reaches the target.
	Reached Result = "reached"
	// Failed means that it does not, or not in time.
	Failed Result = "failed"
	// Refused means that the agent does not probe this target.
	Refused Result = "refused"
	// Busy means that the agent probes too much already.
	Busy Result = "busy"
	// Unreachable means that the agent did not answer.
	Unreachable Result = "unreachable"
	// Invalid means that the answer makes no sense.
	Invalid Result = "invalid"
)

// Results returns all of them.
func Results() []Result { return []Result{Reached, Failed, Refused, Busy, Unreachable, Invalid} }

// Answer is an agent's answer.
type Answer struct {
	Result Result
	// Duration is how long the node takes to reach the target, if it does.
	Duration time.Duration
	// Problem is why there is no measurement.
	Problem error
}

// maxAnswerBytes is more than the answer to a probe has: about 4 KiB.
const maxAnswerBytes = 64 << 10

var errTooLong = fmt.Errorf("the answer is longer than %d bytes", maxAnswerBytes)

// parseAnswer parses the metrics of a probe.
func parseAnswer(body io.Reader) Answer {
	limited := &io.LimitedReader{R: body, N: maxAnswerBytes}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(limited)
	if limited.N <= 0 {
		return Answer{Result: Invalid, Problem: errTooLong}
	}
	if err != nil {
		return Answer{Result: Invalid, Problem: fmt.Errorf("the answer can't be read: %w", err)}
	}
	success, err := gauge(families["probe_success"])
	if err != nil {
		return Answer{Result: Invalid, Problem: fmt.Errorf("probe_success: %w", err)}
	}
	if success != 1 {
		return Answer{Result: Failed}
	}
	seconds, err := gauge(families["probe_duration_seconds"])
	if err != nil {
		return Answer{Result: Invalid, Problem: fmt.Errorf("probe_duration_seconds: %w", err)}
	}
	if !(seconds >= 0) || math.IsInf(seconds, 0) { // NaN is not greater than anything
		return Answer{Result: Invalid, Problem: fmt.Errorf("probe_duration_seconds: %v is no duration", seconds)}
	}
	return Answer{Result: Reached, Duration: time.Duration(min(seconds, maxSeconds) * float64(time.Second))}
}

// maxSeconds keeps a number of seconds within what a Duration can hold.
const maxSeconds = 3600

var errMissing = errors.New("is missing")

func gauge(family *dto.MetricFamily) (float64, error) {
	if family == nil || len(family.GetMetric()) != 1 {
		return 0, errMissing
	}
	switch one := family.GetMetric()[0]; family.GetType() {
	case dto.MetricType_GAUGE:
		return one.GetGauge().GetValue(), nil
	case dto.MetricType_UNTYPED:
		return one.GetUntyped().GetValue(), nil
	default:
		return 0, errors.New("is no gauge")
	}
}
