// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package estimate estimates how fast nodes reach targets: a moving average in which
// older measurements count less. It measures nothing itself; measurements are passed in.
package estimate

import (
	"math"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Question is what nodes are asked: how fast they reach a target.
type Question struct {
	// Target is the address, as the agents' prober expects it.
	Target string
	// Module is the prober's way to reach it.
	Module string
}

// Config configures an Estimator.
type Config struct {
	Clock clock.PassiveClock
	// HalfLife is the age at which a measurement counts half as much as a new one.
	HalfLife time.Duration
	// Expiry is how long after its last measurement a node is unknown again.
	Expiry time.Duration
}

// Estimator holds an estimate for each question and node. It may be used from several
// goroutines.
type Estimator struct {
	config Config
	mu     sync.RWMutex
	values map[Question]map[string]value
}

// value is an estimate in seconds and when it was last measured.
type value struct {
	seconds float64
	at      time.Time
}

// Estimate is what is known of a node.
type Estimate struct {
	// Known is false if there is no estimate.
	Known bool
	// Duration is how long the node takes to reach the target.
	Duration time.Duration
}

// New returns an empty Estimator.
func New(config Config) *Estimator {
	return &Estimator{config: config, values: map[Question]map[string]value{}}
}

// Observe records how long a node has just taken.
func (e *Estimator) Observe(question Question, node string, duration time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, seconds := e.config.Clock.Now(), duration.Seconds()
	nodes := e.values[question]
	if nodes == nil {
		nodes = map[string]value{}
		e.values[question] = nodes
	}
	if before, found := nodes[node]; found && e.fresh(before, now) {
		// Weighted by time, not by count: it does not matter how often a node is asked. The
		// first measurement after a long time counts almost alone.
		age := max(0, now.Sub(before.at)).Seconds()
		keep := math.Exp2(-age / e.config.HalfLife.Seconds())
		seconds = keep*before.seconds + (1-keep)*seconds
	}
	nodes[node] = value{seconds: seconds, at: now}
}

func (e *Estimator) fresh(v value, now time.Time) bool { return now.Sub(v.at) < e.config.Expiry }

// Estimates returns the estimates of the given nodes.
func (e *Estimator) Estimates(question Question, nodes []string) []Estimate {
	e.mu.RLock()
	defer e.mu.RUnlock()
	now, known := e.config.Clock.Now(), e.values[question]
	estimates := make([]Estimate, len(nodes))
	for i, node := range nodes {
		if v, found := known[node]; found && e.fresh(v, now) {
			estimates[i] = Estimate{Known: true, Duration: time.Duration(v.seconds * float64(time.Second))}
		}
	}
	return estimates
}

// Forget drops the estimates of a question that is no longer asked.
func (e *Estimator) Forget(question Question) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.values, question)
}

// Prune drops estimates that have expired, such as those of deleted nodes.
func (e *Estimator) Prune() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.config.Clock.Now()
	for question, nodes := range e.values {
		for node, v := range nodes {
			if !e.fresh(v, now) {
				delete(nodes, node)
			}
		}
		if len(nodes) == 0 {
			delete(e.values, question)
		}
	}
}

// Ages returns how many estimates there are, and how long ago the oldest of them
// was measured.
func (e *Estimator) Ages() (count int, oldest time.Duration) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	now := e.config.Clock.Now()
	for _, nodes := range e.values {
		for _, v := range nodes {
			if e.fresh(v, now) {
				count++
				oldest = max(oldest, now.Sub(v.at))
			}
		}
	}
	return count, oldest
}
