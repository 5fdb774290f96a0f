// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"falldio.github.io/gpu-controller/scheduler/capacity"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

const subsystem = "gpu_scheduler"

// instruments are the planner's metrics.
type instruments struct {
	plans   *metrics.Histogram
	gangs   *metrics.Counter
	pods    *metrics.Counter
	failed  *metrics.CounterVec
	aborted *metrics.Counter
	victims *metrics.Counter
	foreign *metrics.Counter
	// waits are by queue, and estimated are starts by how they turned out: early, within, late.
	waits     *metrics.HistogramVec
	estimated *metrics.CounterVec
	// capacity are the gauges of how much there is.
	capacity *capacity.Gauges
}

func newInstruments() (*instruments, error) {
	gauges, err := capacity.NewGauges()
	if err != nil {
		return nil, err
	}
	i := &instruments{
		capacity: gauges,
		plans: metrics.NewHistogram(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: "plan_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "How long it took to find places for a gang, or to find that there are none.",
			Buckets: metrics.ExponentialBuckets(0.0001, 2, 16),
		}),
		gangs: metrics.NewCounter(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "gangs_started_total", StabilityLevel: metrics.ALPHA,
			Help: "Gangs that got places for the Pods that start together.",
		}),
		pods: metrics.NewCounter(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "pods_started_total", StabilityLevel: metrics.ALPHA,
			Help: "Pods that are in no gang and got a place.",
		}),
		failed: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "plans_failed_total", StabilityLevel: metrics.ALPHA,
			Help: "Attempts to place a gang or a Pod that found no place, by the most frequent reason.",
		}, []string{"reason"}),
		aborted: metrics.NewCounter(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "plans_aborted_total", StabilityLevel: metrics.ALPHA,
			Help: "Plans of gangs that were given up while members were on their way to the barrier.",
		}),
		victims: metrics.NewCounter(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "preemption_victims_total", StabilityLevel: metrics.ALPHA,
			Help: "Pods that were preempted.",
		}),
		waits: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: subsystem, Name: "wait_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "How long gangs, and Pods that are in none, have waited for their places since they were created, by queue.",
			Buckets: metrics.ExponentialBuckets(1, 4, 11),
		}, []string{"queue"}),
		estimated: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "estimated_starts_total", StabilityLevel: metrics.ALPHA,
			Help: "Starts of gangs that were told when they would start, compared with the first such estimate: early, within, late.",
		}, []string{"result"}),
		foreign: metrics.NewCounter(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "foreign_bindings_total", StabilityLevel: metrics.ALPHA,
			Help: "Pods that another gpu-scheduler has bound while this one was the leader: both give out the same GPUs.",
		}),
	}
	for _, one := range []metrics.Registerable{i.plans, i.gangs, i.pods, i.failed, i.aborted, i.victims, i.foreign, i.waits, i.estimated} {
		if err := legacyregistry.Register(one); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return i, nil
}

// started counts a gang that got its places, after a wait in a queue.
func (i *instruments) started(attempt *gangs.Attempt, queue string, waited time.Duration) {
	if len(attempt.Placed) == 0 { // the others join those that have started, or replace some
		i.waits.WithLabelValues(queue).Observe(waited.Seconds())
	}
	if attempt.Group.Alone {
		i.pods.Inc()
		return
	}
	i.gangs.Inc()
}
