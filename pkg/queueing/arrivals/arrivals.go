// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package arrivals remembers which jobs were submitted. Tomorrow's are likely to be about the same: the
// estimates of package outlook count on them. It is pure.
package arrivals

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
)

const (
	// Days is how many of the last days are likely to come again, each as likely as the others. More did not
	// help on the trace of docs/benchmarks.md.
	Days = 5
	// kept is for how long submissions are remembered, and most how many are.
	kept = Days * day
	most = 1 << 14
	// same is within which time submissions under one key are one: a gang's members are not created at once.
	same = time.Minute

	day = 24 * time.Hour
)

// Submission is a job that was submitted.
type Submission struct {
	// At is when. It has a resolution of a second in JSON.
	At    time.Time `json:"at"`
	Queue string    `json:"queue,omitempty"`
	// Percent is what all members need, in percent of a GPU.
	Percent int `json:"percent,omitempty"`
	// Task is what its run time is predicted from: see runtimes.History.
	Task runtimes.Task `json:"task"`
	// Needs are what it needs to start.
	Needs []outlook.Need `json:"needs"`
	// ID stands for its key.
	ID uint32 `json:"id"`
}

// Record is the submissions of the last days, at most 16,384 of them: then the oldest are forgotten. The zero
// value is empty. It is not safe for concurrent use.
type Record struct {
	// list has the first submission first; last is when each key was submitted last.
	list []Submission
	last map[uint32]time.Time
}

// Add records a submission, unless it is known: several with the same key within a minute are one.
func (r *Record) Add(key string, one Submission) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key)) // it never fails
	one.ID, one.At = hash.Sum32(), one.At.UTC().Truncate(time.Second)
	one.Task.Name = runtimes.Stem(one.Task.Name)
	r.insert(one)
}

// Merge adds what another record has.
func (r *Record) Merge(other *Record) {
	for i := range other.list {
		r.insert(other.list[i])
	}
}

func (r *Record) insert(one Submission) {
	if before, known := r.last[one.ID]; known && one.At.Sub(before).Abs() < same {
		return
	}
	at := len(r.list)
	for at > 0 && r.list[at-1].At.After(one.At) {
		at--
	}
	r.list = slices.Insert(r.list, at, one)
	if r.last == nil {
		r.last = map[uint32]time.Time{}
	}
	if one.At.After(r.last[one.ID]) {
		r.last[one.ID] = one.At
	}
	if newest := r.list[len(r.list)-1].At; len(r.list) > most || newest.Sub(r.list[0].At) > kept {
		r.forget(newest)
	}
}

// forget drops submissions that are too old and, if there are too many, a sixteenth: so that is rare.
func (r *Record) forget(newest time.Time) {
	first := 0
	if len(r.list) > most {
		first = most / 16
	}
	for newest.Sub(r.list[first].At) > kept {
		first++
	}
	r.drop(first)
}

// drop forgets the first submissions.
func (r *Record) drop(count int) {
	for i := range r.list[:count] {
		if gone := &r.list[i]; r.last[gone.ID].Equal(gone.At) {
			delete(r.last, gone.ID)
		}
	}
	r.list = slices.Delete(r.list, 0, count)
}

// Len returns how many submissions are remembered.
func (r *Record) Len() int { return len(r.list) }

// Clone returns a copy with the last submissions, at most so many.
func (r *Record) Clone(most int) *Record {
	clone := &Record{}
	for i := max(0, len(r.list)-most); i < len(r.list); i++ {
		clone.insert(r.list[i])
	}
	return clone
}

// Again returns the submissions that came within 24 hours after the same time of each of the last days, yesterday's first,
// with the times at which they would come again, the next one first. There is no list for days before the first
// submission. The needs are shared and must not be changed.
func (r *Record) Again(now time.Time) [][]Submission {
	var list [][]Submission
	for back := 1; back <= Days; back++ {
		later := time.Duration(back) * day
		from, to := r.countUntil(now.Add(-later)), r.countUntil(now.Add(day-later))
		if to == 0 {
			break
		}
		again := slices.Clone(r.list[from:to])
		for i := range again {
			again[i].At = again[i].At.Add(later)
		}
		list = append(list, again)
	}
	return list
}

// countUntil returns how many submissions came until a time.
func (r *Record) countUntil(at time.Time) int {
	count, _ := slices.BinarySearchFunc(r.list, at, func(one Submission, at time.Time) int {
		if one.At.After(at) {
			return 1
		}
		return -1
	})
	return count
}

// MarshalJSON implements json.Marshaler.
func (r *Record) MarshalJSON() ([]byte, error) { return json.Marshal(r.list) }

// UnmarshalJSON implements json.Unmarshaler. What is remembered already is forgotten.
func (r *Record) UnmarshalJSON(data []byte) error {
	var list []Submission
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	read := Record{}
	for i := range list {
		if err := list[i].check(); err != nil {
			return fmt.Errorf("submission %d: %w", i, err)
		}
		read.insert(list[i])
	}
	*r = read
	return nil
}

func (s *Submission) check() error {
	if s.At.IsZero() || s.Percent < 0 || s.Task.GPUs < 0 || s.Task.Limit < 0 {
		return errors.New("must have a time and no negative amounts")
	}
	for _, need := range s.Needs {
		if need.Members < 1 || need.Percent < 0 {
			return errors.New("needs must have members and no negative amounts")
		}
	}
	return nil
}
