// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trace reads the jobs of a trace of Microsoft's Philly clusters, and makes up what it
// does not have: limits that their users might have declared.
package trace

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Week is the length of the trace's weeks. They begin on Mondays.
const Week = 7 * 24 * time.Hour

// Job is a job of the trace.
type Job struct {
	// ID is its line in the file.
	ID        int
	Submitted time.Time
	Duration  time.Duration
	GPUs      int
	// Cluster is the virtual cluster: the team.
	Cluster string
}

// Trace is jobs in the order of their submission.
type Trace struct {
	Jobs []Job
	// Begin is the Monday before the first job.
	Begin time.Time
}

// Read reads a trace from a file.
func Read(path string) (*Trace, error) {
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	t, err := parse(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// columns are the columns that are needed.
var columns = []string{"timestamp", "duration", "num_gpus", "cluster"}

func parse(r io.Reader) (*Trace, error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(lines) < 2 {
		return nil, fmt.Errorf("there are no jobs")
	}
	at := make([]int, len(columns))
	for i, name := range columns {
		if at[i] = slices.Index(lines[0], name); at[i] < 0 {
			return nil, fmt.Errorf("there is no column %q", name)
		}
	}
	t := &Trace{}
	for i, line := range lines[1:] {
		job, err := parseJob(line, at)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
		job.ID = i + 2
		t.Jobs = append(t.Jobs, job)
	}
	t.sort()
	first := t.Jobs[0].Submitted
	t.Begin = first.Truncate(24*time.Hour).AddDate(0, 0, -(int(first.Weekday())+6)%7)
	return t, nil
}

func parseJob(line []string, at []int) (job Job, err error) {
	if job.Submitted, err = time.Parse(time.DateTime, line[at[0]]); err != nil {
		return job, err
	}
	seconds, err := strconv.ParseFloat(line[at[1]], 64)
	if err != nil {
		return job, fmt.Errorf("duration: %w", err)
	}
	job.Duration = max(time.Duration(seconds*float64(time.Second)), time.Second)
	if job.GPUs, err = strconv.Atoi(line[at[2]]); err != nil || job.GPUs < 1 {
		return job, fmt.Errorf("num_gpus: must be a positive number, is %q", line[at[2]])
	}
	job.Cluster = strings.TrimSpace(line[at[3]])
	return job, nil
}

func (t *Trace) sort() {
	slices.SortFunc(t.Jobs, func(a, b Job) int { return cmp.Or(a.Submitted.Compare(b.Submitted), cmp.Compare(a.ID, b.ID)) })
}

// jitter is how far jobs are submitted from when they were, at most.
const jitter = 30 * time.Minute

// Jittered returns the trace with other submission times: each up to half an hour earlier
// or later.
func (t *Trace) Jittered(seed uint64) *Trace {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // simulation
	other := &Trace{Jobs: slices.Clone(t.Jobs), Begin: t.Begin}
	for i := range other.Jobs {
		moved := other.Jobs[i].Submitted.Add(time.Duration((2*random.Float64() - 1) * float64(jitter)))
		if moved.Before(t.Begin) {
			moved = t.Begin
		}
		other.Jobs[i].Submitted = moved.Truncate(time.Second)
	}
	other.sort()
	return other
}

// limits are what users usually declare.
var limits = []time.Duration{time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, Week, 30 * 24 * time.Hour}

// mostTooMuch is by what factor users overestimate at most.
const mostTooMuch = 5

// Limit returns the limit that a job's user might have declared: its duration times a
// factor from 1 to 5, rounded up to a usual limit. What exceeds all of them is rounded up to
// multiples of the largest.
func (j *Job) Limit(random *rand.Rand) time.Duration {
	wanted := time.Duration(float64(j.Duration) * (1 + (mostTooMuch-1)*random.Float64()))
	for _, limit := range limits {
		if wanted <= limit {
			return limit
		}
	}
	largest := limits[len(limits)-1]
	return max(largest, time.Duration(math.Ceil(float64(j.Duration)/float64(largest)))*largest)
}
