// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "gpu_scheduler"

// Metrics are the journal's metrics.
type Metrics struct {
	decisions, dropped, errors *metrics.Counter
	bytes                      *metrics.Gauge
}

func newMetrics() *Metrics {
	counter := func(name, help string) *metrics.Counter {
		return metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	}
	return &Metrics{
		decisions: counter("journal_decisions_total", "Decisions that were to be recorded in the journal."),
		dropped:   counter("journal_dropped_records_total", "Decisions and changes that are not in the journal: it could not be written, or not fast enough."),
		errors:    counter("journal_write_errors_total", "How often the journal could not be written. Each time, nothing is recorded for a minute."),
		bytes: metrics.NewGauge(&metrics.GaugeOpts{
			Subsystem: subsystem, Name: "journal_bytes", Help: "The size of the journal's files.", StabilityLevel: metrics.ALPHA,
		}),
	}
}

// NewMetrics returns metrics that are registered, once in a process.
func NewMetrics() (*Metrics, error) {
	m := newMetrics()
	for _, one := range []metrics.Registerable{m.decisions, m.dropped, m.errors, m.bytes} {
		if err := legacyregistry.Register(one); err != nil {
			return nil, fmt.Errorf("metrics of the journal: %w", err)
		}
	}
	return m, nil
}
