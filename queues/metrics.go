// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

const metricsNamespace = "gpu_controller"

var (
	gpusDesc = prometheus.NewDesc(metricsNamespace+"_queue_gpus",
		"GPUs of a GPUQueue and its children, by model (* for all together) and state (used, borrowed, waiting, guaranteed, limit).", []string{"queue", "gpu", "state"}, nil)
	tasksDesc = prometheus.NewDesc(metricsNamespace+"_queue_tasks",
		"Tasks of a GPUQueue and its children, by state (running, waiting).", []string{"queue", "state"}, nil)
	secondsDesc = prometheus.NewDesc(metricsNamespace+"_queue_gpu_seconds_total",
		"GPU time that a GPUQueue and its children have used since it was created.", []string{"queue"}, nil)
	shareDesc = prometheus.NewDesc(metricsNamespace+"_queue_share",
		"Share of the GPU time that a GPUQueue has used lately, over the share that is due by its weight.", []string{"queue"}, nil)
	readyDesc = prometheus.NewDesc(metricsNamespace+"_queue_ready",
		"1 if a GPUQueue works as its spec says, 0 if not, with the reason.", []string{"queue", "reason"}, nil)
)

// metrics are the numbers of the last pass. A process that does not lead has none.
type metrics struct {
	mu      sync.Mutex
	samples []prometheus.Metric
}

var _ prometheus.Collector = &metrics{}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{gpusDesc, tasksDesc, secondsDesc, shareDesc, readyDesc} {
		descriptions <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, sample := range m.samples {
		metrics <- sample
	}
}

// set replaces the numbers by those of a pass; none if there are no queues.
func (m *metrics) set(report *gpuqueue.Report, queues []*v1.GPUQueue) {
	var samples []prometheus.Metric
	for _, queue := range queues {
		samples = append(samples, samplesOf(report, queue)...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.samples = samples
}

func samplesOf(report *gpuqueue.Report, queue *v1.GPUQueue) []prometheus.Metric {
	var samples []prometheus.Metric
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		samples = append(samples, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{queue.Name}, labels...)...))
	}
	status := report.Status(queue)
	for i := range status.Resources {
		model := status.Resources[i].GPU
		gauge(gpusDesc, gpus(report.View.Held.Held(queue.Name, model)), model, "used")
		gauge(gpusDesc, gpus(report.View.Held.Borrowed(queue.Name, model)), model, "borrowed")
		gauge(gpusDesc, gpus(report.View.Waiting.Held(queue.Name, model)), model, "waiting")
		gauge(gpusDesc, gpus(report.Tree.Guaranteed(queue.Name, model)), model, "guaranteed")
	}
	for i := range queue.Spec.Resources {
		if resource := &queue.Spec.Resources[i]; resource.Limit != nil {
			gauge(gpusDesc, float64(*resource.Limit), resource.GPU, "limit")
		}
	}
	gauge(tasksDesc, float64(status.Running), "running")
	gauge(tasksDesc, float64(status.Waiting), "waiting")
	if account := report.Accounts[queue.Name]; account != nil {
		samples = append(samples, prometheus.MustNewConstMetric(secondsDesc, prometheus.CounterValue, account.Total, queue.Name))
	}
	if factor, found := report.Factors[queue.Name]; found {
		gauge(shareDesc, factor)
	}
	ready := 1.0
	reason := v1.ReasonQueueAccepted
	if problem := gpuqueue.Problem(queue, report.Tree); problem != nil {
		ready, reason = 0, string(problem.Reason)
	}
	gauge(readyDesc, ready, reason)
	return samples
}

func gpus(amount queueing.Amount) float64 { return float64(amount) / float64(queueing.GPU) }
