// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"sync"
	"time"
)

// maxSilence is how many periods an agent that does not answer is left alone at
// most.
const maxSilence = 16

// patience remembers which agents do not answer: each costs a whole timeout, and
// many of them would keep the others waiting.
type patience struct {
	period time.Duration
	mu     sync.Mutex
	silent map[string]*silence
}

// silence is how often in a row an agent did not answer.
type silence struct {
	count int
	until time.Time
}

func newPatience(period time.Duration) *patience {
	return &patience{period: period, silent: map[string]*silence{}}
}

// mayAsk reports whether the node's agent may be asked now.
func (p *patience) mayAsk(node string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.silent[node]
	return one == nil || !now.Before(one.until)
}

// note takes in whether the agent answered. It is left alone for 1, 2, 4 … periods.
func (p *patience) note(node string, answered bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answered {
		delete(p.silent, node)
		return
	}
	one := p.silent[node]
	if one == nil {
		one = &silence{}
		p.silent[node] = one
	}
	if now.Before(one.until) {
		return // another question of the same round
	}
	periods := min(1<<min(one.count, maxSilence), maxSilence)
	one.count++
	one.until = now.Add(time.Duration(periods) * p.period)
}

// forget drops nodes that do not exist any more.
func (p *patience) forget(exists map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node := range p.silent {
		if !exists[node] {
			delete(p.silent, node)
		}
	}
}
