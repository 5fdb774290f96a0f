// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// labels are the names of a metric's labels and their values.
type labels struct{ names, values []string }

// with returns the labels with one more.
func (l labels) with(name, value string) labels {
	return labels{slices.Concat(l.names, []string{name}), slices.Concat(l.values, []string{value})}
}

// sink takes the metrics of one scrape.
type sink struct {
	into chan<- prometheus.Metric
	// described has the descriptors of all scrapes, by metric.
	described *sync.Map
}

// metric identifies a descriptor: DCGM has metrics of one name with different labels.
type metric struct {
	name   string
	labels int
}

func (s *sink) describe(name, help string, l labels) *prometheus.Desc {
	key := metric{name, len(l.names)}
	if known, found := s.described.Load(key); found {
		return known.(*prometheus.Desc) //nolint:forcetypeassert // nothing else is stored
	}
	desc := prometheus.NewDesc(name, help, l.names, nil)
	s.described.Store(key, desc)
	return desc
}

// add adds a metric. An invalid one, for example because the driver returned a name that is not
// valid UTF-8, becomes an error of the scrape.
func (s *sink) add(kind prometheus.ValueType, name, help string, value float64, l labels) {
	desc := s.describe(name, help, l)
	constant, err := prometheus.NewConstMetric(desc, kind, value, l.values...)
	if err != nil {
		constant = prometheus.NewInvalidMetric(desc, err)
	}
	s.into <- constant
}

func (s *sink) gauge(name, help string, value float64, l labels) {
	s.add(prometheus.GaugeValue, name, help, value, l)
}

func (s *sink) counter(name, help string, value float64, l labels) {
	s.add(prometheus.CounterValue, name, help, value, l)
}

// truth is a gauge that is 1 or 0.
func (s *sink) truth(name, help string, value bool, l labels) {
	number := 0.0
	if value {
		number = 1
	}
	s.gauge(name, help, number, l)
}
