// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing/arrivals"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/history"
)

// The greatest sizes of what is kept over restarts, in bytes: together less than 900 KiB.
const (
	mostOfRuntimes    = 600 << 10
	mostOfSubmissions = 250 << 10
	mostOfOutcomes    = 32 << 10
)

const (
	// recentPeriod is for how long ended jobs are remembered one by one: longer than from one write of the history to
	// the next, as a rule. mostRecent bounds how many.
	recentPeriod = 15 * time.Minute
	mostRecent   = 4096
)

// endedJob is how long a job ran that ended at a time.
type endedJob struct {
	task runtimes.Task
	ran  time.Duration
	at   time.Time
}

// learn requires the lock.
func (b *queueBook) learn(job endedJob) {
	b.history.Add(job.task, job.ran)
	b.learnedAt = job.at
	b.recent = append(b.recent, job)
	first := max(0, len(b.recent)-mostRecent)
	for b.recent[first].at.Before(job.at.Add(-recentPeriod)) {
		first++
	}
	b.recent = slices.Delete(b.recent, 0, first)
}

// HistoryPeriod returns how often what was learned from the past is to be written; 0 for never.
func (p *Planner) HistoryPeriod() time.Duration { return config.Seconds(p.args.HistoryPeriodSeconds) }

// History returns what is learned from the past.
func (p *Planner) History() []history.Section {
	return []history.Section{
		{Name: "runtimes", Most: mostOfRuntimes, Encode: p.encodeRuntimes, Restore: p.restoreRuntimes},
		{Name: "submissions", Most: mostOfSubmissions, Encode: p.encodeSubmissions, Restore: p.restoreSubmissions},
		{Name: "outcomes", Most: mostOfOutcomes, Encode: p.encodeOutcomes, Restore: p.restoreOutcomes},
	}
}

// keptRuntimes is how long jobs ran of which the last one ended at a time.
type keptRuntimes struct {
	Until   time.Time         `json:"until"`
	History *runtimes.History `json:"history"`
}

func (p *Planner) encodeRuntimes(part float64) ([]byte, error) {
	p.queues.mu.Lock()
	known := p.queues.history
	kept := keptRuntimes{Until: p.queues.learnedAt, History: known.Clone(int(part * float64(known.Groups())))}
	p.queues.mu.Unlock()
	return json.Marshal(kept)
}

// restoreRuntimes takes over what was kept. A process that has waited for the lease knows some of it already, and has
// seen jobs end since it was written: only these are added to it.
func (p *Planner) restoreRuntimes(data []byte) error {
	var kept keptRuntimes
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	if kept.History == nil {
		return errors.New("there is no history")
	}
	p.queues.mu.Lock()
	defer p.queues.mu.Unlock()
	for _, job := range p.queues.recent {
		if job.at.After(kept.Until) {
			kept.History.Add(job.task, job.ran)
		}
	}
	p.queues.history = kept.History
	if kept.Until.After(p.queues.learnedAt) {
		p.queues.learnedAt = kept.Until
	}
	return nil
}

func (p *Planner) encodeSubmissions(part float64) ([]byte, error) {
	p.submissions.mu.Lock()
	known := &p.submissions.record
	kept := known.Clone(int(part * float64(known.Len())))
	p.submissions.mu.Unlock()
	return json.Marshal(kept)
}

func (p *Planner) restoreSubmissions(data []byte) error {
	var kept arrivals.Record
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	p.submissions.mu.Lock()
	defer p.submissions.mu.Unlock()
	kept.Merge(&p.submissions.record)
	p.submissions.record = kept
	return nil
}

func (p *Planner) encodeOutcomes(part float64) ([]byte, error) {
	p.outcomes.mu.Lock()
	count := int(part * float64(len(p.outcomes.last)))
	kept := slices.Clone(p.outcomes.last[len(p.outcomes.last)-count:])
	p.outcomes.mu.Unlock()
	return json.Marshal(kept)
}

// restoreOutcomes takes over outcomes that come before those that this process has seen.
func (p *Planner) restoreOutcomes(data []byte) error {
	var kept []outcome
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	for _, one := range kept {
		if one.Estimated < 0 || one.Waited < 0 || one.Estimated > mostWait.Seconds() || one.Waited > mostWait.Seconds() {
			return errors.New("a wait must be from 0 to 10 years")
		}
	}
	p.outcomes.restore(kept)
	return nil
}
