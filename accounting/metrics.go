// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"falldio.github.io/gpu-controller/pkg/accounting"
)

const (
	metricsNamespace = "gpu_controller"
	// maxSeries is how many pairs of queue and namespace have metrics of their own.
	maxSeries = 1000
)

// metrics are what this process has counted since it leads.
type metrics struct {
	used, waiting, lost *prometheus.CounterVec
	// series are the pairs of queue and namespace.
	series map[[2]string]bool
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		options := prometheus.CounterOpts{Namespace: metricsNamespace, Name: name, Help: help}
		return promauto.With(registerer).NewCounterVec(options, []string{"queue", "namespace"})
	}
	return &metrics{
		used:    counter("usage_gpu_seconds_total", "GPU time that Pods have held, by queue and namespace."),
		waiting: counter("usage_waiting_gpu_seconds_total", "GPU time that Pods have waited for a place, by queue and namespace."),
		lost:    counter("usage_lost_gpu_seconds_total", "GPU time whose work was lost: what Pods that failed, were preempted or moved have done since their last checkpoint."),
		series:  map[[2]string]bool{},
	}
}

// add adds what a book has counted.
func (m *metrics) add(book *accounting.Book) {
	book.Each(func(key accounting.Key, _ time.Time, amounts accounting.Amounts) {
		pair := [2]string{key.Queue, key.Namespace}
		if !m.series[pair] && len(m.series) >= maxSeries {
			pair = [2]string{accounting.Others, accounting.Others}
		}
		m.series[pair] = true
		m.used.WithLabelValues(pair[0], pair[1]).Add(amounts.Used.Seconds())
		m.waiting.WithLabelValues(pair[0], pair[1]).Add(amounts.Waiting.Seconds())
		m.lost.WithLabelValues(pair[0], pair[1]).Add(amounts.Lost.Seconds())
	})
}
