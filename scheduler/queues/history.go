// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing/arrivals"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
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

func (b *queueBook) learn(job endedJob) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history.Add(job.task, job.ran)
	b.learnedAt = job.at
	b.recent = append(b.recent, job)
	first := max(0, len(b.recent)-mostRecent)
	for b.recent[first].at.Before(job.at.Add(-recentPeriod)) {
		first++
	}
	b.recent = slices.Delete(b.recent, 0, first)
}

// History returns what is learned from the past.
func (l *Line) History() []history.Section {
	return []history.Section{
		{Name: "runtimes", Most: mostOfRuntimes, Encode: l.book.encode, Restore: l.book.restore},
		{Name: "submissions", Most: mostOfSubmissions, Encode: l.submissions.encode, Restore: l.submissions.restore},
		{Name: "outcomes", Most: mostOfOutcomes, Encode: l.outcomes.encode, Restore: l.outcomes.restore},
	}
}

// keptRuntimes is how long jobs ran of which the last one ended at a time.
type keptRuntimes struct {
	Until   time.Time         `json:"until"`
	History *runtimes.History `json:"history"`
}

func (b *queueBook) encode(part float64) ([]byte, error) {
	b.mu.Lock()
	known := b.history
	kept := keptRuntimes{Until: b.learnedAt, History: known.Clone(int(part * float64(known.Groups())))}
	b.mu.Unlock()
	return json.Marshal(kept)
}

// restore takes over what was kept. A process that has waited for the lease knows some of it already, and has
// seen jobs end since it was written: only these are added to it.
func (b *queueBook) restore(data []byte) error {
	var kept keptRuntimes
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	if kept.History == nil {
		return errors.New("there is no history")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, job := range b.recent {
		if job.at.After(kept.Until) {
			kept.History.Add(job.task, job.ran)
		}
	}
	b.history = kept.History
	if kept.Until.After(b.learnedAt) {
		b.learnedAt = kept.Until
	}
	return nil
}

func (s *submissions) encode(part float64) ([]byte, error) {
	s.mu.Lock()
	known := &s.record
	kept := known.Clone(int(part * float64(known.Len())))
	s.mu.Unlock()
	return json.Marshal(kept)
}

func (s *submissions) restore(data []byte) error {
	var kept arrivals.Record
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept.Merge(&s.record)
	s.record = kept
	return nil
}

func (o *outcomes) encode(part float64) ([]byte, error) {
	o.mu.Lock()
	count := int(part * float64(len(o.last)))
	kept := slices.Clone(o.last[len(o.last)-count:])
	o.mu.Unlock()
	return json.Marshal(kept)
}

// restore takes over outcomes that come before those that this process has seen.
func (o *outcomes) restore(data []byte) error {
	var kept []outcome
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	for _, one := range kept {
		if one.Estimated < 0 || one.Waited < 0 || one.Estimated > mostWait.Seconds() || one.Waited > mostWait.Seconds() {
			return errors.New("a wait must be from 0 to 10 years")
		}
	}
	o.putBefore(kept)
	return nil
}
