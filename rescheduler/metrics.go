// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

const metricsNamespace = "gpu_controller"

// metrics are about plans. The counters are updated when a plan ends.
type metrics struct {
	// moves has the labels goal and result: Moved, Elsewhere, Skipped, Evicted.
	moves *prometheus.CounterVec
	// plans has the labels goal and result: the plan's last phase.
	plans *prometheus.CounterVec
	// lost has the label namespace.
	lost      *prometheus.CounterVec
	regained  prometheus.Counter
	planning  prometheus.Histogram
	execution prometheus.Histogram
}

// NewEvictions returns the counter of evictions. It exists even if rescheduling is
// disabled: a series that appears late breaks alerts.
func NewEvictions() *prometheus.CounterVec {
	evictions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: metricsNamespace, Name: "pods_evicted_total",
		Help: "Evictions asked for by rescheduling, by result (success, refused by a PodDisruptionBudget, error).",
	}, []string{"result"})
	for _, result := range []string{"success", "refused", "error"} {
		evictions.WithLabelValues(result)
	}
	return evictions
}

func newMetrics(r *Rescheduler) *metrics {
	register := promauto.With(r.deps.Metrics)
	m := &metrics{
		moves: register.NewCounterVec(prometheus.CounterOpts{
			Namespace: metricsNamespace, Name: "moves_total",
			Help: "Moves of MovePlans that have ended, by goal and result (Moved; Elsewhere, on another node than planned; Skipped, not carried out; Evicted, without a new node at the end).",
		}, []string{"goal", "result"}),
		plans: register.NewCounterVec(prometheus.CounterOpts{
			Namespace: metricsNamespace, Name: "move_plans_ended_total",
			Help: "MovePlans that have ended, by goal and result (Done, Aborted).",
		}, []string{"goal", "result"}),
		lost: register.NewCounterVec(prometheus.CounterOpts{
			Namespace: metricsNamespace, Name: "moves_lost_gpu_minutes_total",
			Help: "Work that was lost to moves, in GPU-minutes, by namespace.",
		}, []string{"namespace"}),
		regained: register.NewCounter(prometheus.CounterOpts{
			Namespace: metricsNamespace, Name: "moves_regained_gpus_total",
			Help: "GPUs that moves have freed for waiting tasks or as whole GPUs.",
		}),
		planning: register.NewHistogram(prometheus.HistogramOpts{
			Namespace: metricsNamespace, Name: "move_planning_duration_seconds",
			Help:    "Time to plan the next MovePlan, also when there is none.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}),
		execution: register.NewHistogram(prometheus.HistogramOpts{
			Namespace: metricsNamespace, Name: "move_plan_duration_seconds",
			Help:    "Time from the beginning of a MovePlan's first turn until its end.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 13),
		}),
	}
	r.deps.Metrics.MustRegister(&planCollector{rescheduler: r})
	for _, goal := range []v1.MovePlanGoal{v1.GoalUnhealthyGPUs, v1.GoalPendingTask, v1.GoalCapacity, v1.GoalRecreate} {
		for _, result := range []v1.MovePlanPhase{v1.PlanDone, v1.PlanAborted} {
			m.plans.WithLabelValues(string(goal), string(result)) // a series that appears late breaks alerts
		}
		for _, result := range []v1.MoveState{v1.MoveMoved, v1.MoveElsewhere, v1.MoveSkipped, v1.MoveEvicted} {
			m.moves.WithLabelValues(string(goal), string(result))
		}
	}
	return m
}

// observe counts a plan when its final status was written.
func (m *metrics) observe(plan *v1.MovePlan, status *v1.MovePlanStatus) {
	if status.CompletionTime == nil || moveplan.Finished(plan) {
		return
	}
	goal := string(plan.Spec.Goal)
	m.plans.WithLabelValues(goal, string(status.Phase)).Inc()
	for i := range status.Moves {
		m.moves.WithLabelValues(goal, string(status.Moves[i].State)).Inc()
		if lost := status.Moves[i].LostGPUSeconds; lost > 0 {
			m.lost.WithLabelValues(plan.Spec.Moves[i].Task.Namespace).Add(float64(lost) / 60)
		}
	}
	if status.Gain != nil {
		m.regained.Add(float64(max(0, status.Gain.GPUs)))
	}
	if status.StartTime != nil {
		m.execution.Observe(status.CompletionTime.Sub(status.StartTime.Time).Seconds())
	}
}

var (
	openPlansDesc = prometheus.NewDesc(metricsNamespace+"_move_plans",
		"MovePlans that have not ended, by phase (Proposed, Approved, Executing).", []string{"phase"}, nil)
	movesLeftDesc = prometheus.NewDesc(metricsNamespace+"_moves_left",
		"Pods that may still be moved within the hour, if there is a limit.", nil, nil)
	minutesLeftDesc = prometheus.NewDesc(metricsNamespace+"_moves_left_gpu_minutes",
		"GPU-minutes of work that may still be lost to moves within the hour, of the namespaces that have lost some, if there is a limit.", []string{"namespace"}, nil)
)

// planCollector counts the plans and reads their ledger on every scrape.
type planCollector struct {
	rescheduler *Rescheduler
}

var _ prometheus.Collector = &planCollector{}

// Describe implements prometheus.Collector.
func (c *planCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- openPlansDesc
	descriptions <- movesLeftDesc
	descriptions <- minutesLeftDesc
}

// Collect implements prometheus.Collector.
func (c *planCollector) Collect(metrics chan<- prometheus.Metric) {
	r := c.rescheduler
	plans, err := r.ownPlans()
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(openPlansDesc, err)
		return
	}
	counts := map[v1.MovePlanPhase]int{v1.PlanProposed: 0, v1.PlanApproved: 0, v1.PlanExecuting: 0}
	for _, plan := range plans {
		if !moveplan.Finished(plan) {
			counts[cmp.Or(plan.Status.Phase, v1.PlanProposed)]++
		}
	}
	for phase, count := range counts {
		metrics <- prometheus.MustNewConstMetric(openPlansDesc, prometheus.GaugeValue, float64(count), string(phase))
	}
	ledger := reschedule.NewLedger(plans, r.deps.Clock.Now())
	if left, limited := ledger.MovesLeft(&r.options.Planner); limited {
		metrics <- prometheus.MustNewConstMetric(movesLeftDesc, prometheus.GaugeValue, float64(left))
	}
	for namespace := range ledger.LostGPUSeconds {
		if left, limited := ledger.GPUSecondsLeft(&r.options.Planner, namespace); limited {
			metrics <- prometheus.MustNewConstMetric(minutesLeftDesc, prometheus.GaugeValue, float64(left)/60, namespace)
		}
	}
}
