// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // workqueue, REST client and leader election metrics
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	tasklisters "falldio.github.io/gpu-controller/pkg/generated/listers/gpucontroller/v1"
	"falldio.github.io/gpu-controller/rescheduler"
)

const metricsNamespace = "gpu_controller"

// controllerMetrics are the controller's own metrics, next to those that
// client-go registers globally.
type controllerMetrics struct {
	registry *prometheus.Registry
	// syncDuration has the label result: success, error.
	syncDuration *prometheus.HistogramVec
	// startDuration is the time from a task's creation until it runs.
	startDuration prometheus.Histogram
	podsCreated   prometheus.Counter
	podsDeleted   prometheus.Counter
	// podsEvicted are the rescheduler's evictions.
	podsEvicted *prometheus.CounterVec
}

func newMetrics(tasks tasklisters.GPUTaskLister, clock clock.PassiveClock) *controllerMetrics {
	m := &controllerMetrics{
		registry: prometheus.NewRegistry(),
		syncDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: metricsNamespace, Name: "sync_duration_seconds",
			Help:    "Time to handle one change of one GPUTask, by result (success, error).",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}, []string{"result"}),
		startDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: metricsNamespace, Name: "task_start_duration_seconds",
			Help:    "Time from the creation of a GPUTask until it ran for the first time.",
			Buckets: prometheus.ExponentialBuckets(0.5, 2, 16),
		}),
		podsCreated: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: metricsNamespace, Name: "pods_created_total", Help: "Pods created for GPUTasks.",
		}),
		podsDeleted: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: metricsNamespace, Name: "pods_deleted_total", Help: "Pods of GPUTasks deleted by the controller.",
		}),
		podsEvicted: rescheduler.NewEvictions(),
	}
	m.registry.MustRegister(m.syncDuration, m.startDuration, m.podsCreated, m.podsDeleted, m.podsEvicted, &taskCollector{tasks: tasks, clock: clock})
	return m
}

func (m *controllerMetrics) observeSync(took time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.syncDuration.WithLabelValues(result).Observe(took.Seconds())
}

// handler serves the controller's own metrics and those of the libraries.
func (m *controllerMetrics) handler() http.Handler {
	return promhttp.HandlerFor(prometheus.Gatherers{legacyregistry.DefaultGatherer, m.registry}, promhttp.HandlerOpts{})
}

// These describe gauges that are computed on every scrape: counters that follow events drift, and
// scrapes are rare.
var (
	tasksDesc = prometheus.NewDesc(metricsNamespace+"_tasks",
		"GPUTasks by phase (Waiting, Pending, Running, Succeeded, Failed, Suspended).", []string{"phase"}, nil)
	overdueDesc = prometheus.NewDesc(metricsNamespace+"_tasks_overdue",
		"GPUTasks that wait although, by what they say, they should have started by now.", nil, nil)
)

type taskCollector struct {
	tasks tasklisters.GPUTaskLister
	clock clock.PassiveClock
}

var _ prometheus.Collector = &taskCollector{}

// Describe implements prometheus.Collector.
func (c *taskCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- tasksDesc
	descriptions <- overdueDesc
}

// Collect implements prometheus.Collector.
func (c *taskCollector) Collect(metrics chan<- prometheus.Metric) {
	counts := map[v1.GPUTaskPhase]int{
		v1.PhaseWaiting: 0, v1.PhasePending: 0, v1.PhaseRunning: 0,
		v1.PhaseSucceeded: 0, v1.PhaseFailed: 0, v1.PhaseSuspended: 0,
	}
	tasks, err := c.tasks.List(labels.Everything())
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(tasksDesc, err)
		return
	}
	overdue, now := 0, c.clock.Now()
	for _, task := range tasks {
		if estimate := task.Status.EstimatedStart; estimate != nil && estimate.Latest.Time.Before(now) {
			overdue++
		}
		phase := task.Status.Phase
		if phase == "" {
			phase = v1.PhasePending
		}
		counts[phase]++
	}
	for phase, count := range counts {
		metrics <- prometheus.MustNewConstMetric(tasksDesc, prometheus.GaugeValue, float64(count), string(phase))
	}
	metrics <- prometheus.MustNewConstMetric(overdueDesc, prometheus.GaugeValue, float64(overdue))
}
