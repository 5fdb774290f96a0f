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
	// mostNeeds is how many needs of a submission are kept, and mostModels how many models of each: a submission that
	// lists more gets little out of them, and would fill the memory of all.
	mostNeeds, mostModels = 64, 64
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

// Record is the submissions of the last days, at most 16,384 of them: then the oldest are forgotten of the namespace
// that has most, so that none drives out what is known of the others. The zero value is empty. It is not safe for
// concurrent use.
type Record struct {
	// list has the first submission first; last is when each key was submitted last.
	list []Submission
	last map[uint32]time.Time
}

// Add records a submission, unless it is known: several with the same key within a minute are one.
func (r *Record) Add(key string, submitted Submission) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key)) // it never fails
	submitted.ID, submitted.At = hash.Sum32(), submitted.At.UTC().Truncate(time.Second)
	submitted.Task.Name = runtimes.Stem(submitted.Task.Name)
	submitted.Needs = bounded(submitted.Needs)
	r.insert(submitted)
}

// bounded returns the first needs, with their first models.
func bounded(needs []outlook.Need) []outlook.Need {
	list := slices.Clone(needs[:min(len(needs), mostNeeds)])
	for i := range list {
		list[i].Models = slices.Clone(list[i].Models[:min(len(list[i].Models), mostModels)])
	}
	return list
}

// Merge adds what another record has.
func (r *Record) Merge(other *Record) {
	for i := range other.list {
		r.insert(other.list[i])
	}
}

func (r *Record) insert(submitted Submission) {
	if before, known := r.last[submitted.ID]; known && submitted.At.Sub(before).Abs() < same {
		return
	}
	r.list = slices.Insert(r.list, r.countUntil(submitted.At), submitted)
	if r.last == nil {
		r.last = map[uint32]time.Time{}
	}
	if submitted.At.After(r.last[submitted.ID]) {
		r.last[submitted.ID] = submitted.At
	}
	if newest := r.list[len(r.list)-1].At; len(r.list) > most || newest.Sub(r.list[0].At) > kept {
		r.forget(newest)
	}
}

// forget drops submissions that are too old and, if there are too many, up to a sixteenth: so that is rare.
func (r *Record) forget(newest time.Time) {
	r.drop(func(known *Submission) bool { return newest.Sub(known.At) > kept })
	if len(r.list) <= most {
		return
	}
	largest, left := r.largest(), most/16
	r.drop(func(known *Submission) bool {
		if known.Task.Namespace != largest || left == 0 {
			return false
		}
		left--
		return true
	})
}

// largest returns the namespace with most submissions; the first by name, if several have.
func (r *Record) largest() (largest string) {
	counts := map[string]int{}
	for i := range r.list {
		counts[r.list[i].Task.Namespace]++
	}
	for namespace, count := range counts {
		if most := counts[largest]; count > most || count == most && namespace < largest {
			largest = namespace
		}
	}
	return largest
}

// drop forgets submissions.
func (r *Record) drop(drops func(*Submission) bool) {
	r.list = slices.DeleteFunc(r.list, func(known Submission) bool {
		if !drops(&known) {
			return false
		}
		if r.last[known.ID].Equal(known.At) {
			delete(r.last, known.ID)
		}
		return true
	})
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

// Again returns the submissions that came within 24 hours after the same time of each of the last days, yesterday's
// first, with the times at which they would come again, the next one first. There is no list for days before the first
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
	count, _ := slices.BinarySearchFunc(r.list, at, func(known Submission, at time.Time) int {
		if known.At.After(at) {
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
