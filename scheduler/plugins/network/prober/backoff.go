// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"sync"
	"time"
)

// maxBackoff is how many periods an agent that does not answer is skipped at most.
const maxBackoff = 16

// backoff tracks which agents do not answer: each costs a whole timeout, and many of them
// would delay the others.
type backoff struct {
	period   time.Duration
	mu       sync.Mutex
	failures map[string]*failure
}

// failure is how often in a row an agent did not answer, and how long it is skipped.
type failure struct {
	count int
	until time.Time
}

func newBackoff(period time.Duration) *backoff {
	return &backoff{period: period, failures: map[string]*failure{}}
}

// mayAsk reports whether the node's agent may be asked now.
func (b *backoff) mayAsk(node string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.failures[node]
	return one == nil || !now.Before(one.until)
}

// record records whether the agent answered. One that did not is skipped for 1, 2, 4 …
// periods.
func (b *backoff) record(node string, answered bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answered {
		delete(b.failures, node)
		return
	}
	one := b.failures[node]
	if one == nil {
		one = &failure{}
		b.failures[node] = one
	}
	if now.Before(one.until) {
		return // another question of the same round
	}
	periods := min(1<<min(one.count, maxBackoff), maxBackoff)
	one.count++
	one.until = now.Add(time.Duration(periods) * b.period)
}

// forget drops nodes that no longer exist.
func (b *backoff) forget(exists map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for node := range b.failures {
		if !exists[node] {
			delete(b.failures, node)
		}
	}
}
