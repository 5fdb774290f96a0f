// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// record is one measurement, and a line of the results file.
type record struct {
	System string `json:"system"`
	Kind   string `json:"kind"` // at full scale
	Gangs  int    `json:"gangs"`
	Size   int    `json:"size"`
	Round  int    `json:"round"`
	// Rate is how many Pods were requested per second, 0 if all at once.
	Rate float64 `json:"rate,omitempty"`
	outcome
	usage
}

// outcome is what the watch saw. Times are in seconds.
type outcome struct {
	// Seconds is from the first request until all Pods ran, Told until all GPUTasks
	// reported it; 0 without GPUTasks.
	Seconds float64 `json:"seconds"`
	Told    float64 `json:"told,omitempty"`
	// Stages are when half of the Pods and all of them were created, bound and
	// running.
	Stages map[string][2]float64 `json:"stages"`
	// Latencies are, for each gang, from its creation until all of it ran;
	// BindLatencies until all of it was bound.
	Latencies     []float64 `json:"latencies"`
	BindLatencies []float64 `json:"bindLatencies"`
	// Pauses are, for each gang, the longest time between two of its bindings.
	Pauses []float64 `json:"pauses"`
	// LongestSpread is the longest from the first to the last binding of a gang.
	LongestSpread float64 `json:"longestSpread"`
	// Lost counts Pods that were deleted.
	Lost int `json:"lost"`
}

// usage is what the cluster used for it.
type usage struct {
	// Window is the time in seconds over which CPU time was measured.
	Window float64 `json:"window"`
	// Puts is etcd's counter, less Background, the continuous writes of leases and nodes.
	Puts       int `json:"puts"`
	Background int `json:"background"`
	// Writes are the API server's successful writes by "resource verb".
	Writes map[string]int `json:"writes"`
	// SlowestBinding is the most seconds that the API server took for one.
	SlowestBinding float64 `json:"slowestBinding"`
	// Events are the Events written, by the kind of the object that they regard.
	Events map[string]int `json:"events"`
	// CPU is the CPU time in seconds by process over the window, Idle in seconds per
	// second once everything was done.
	CPU  map[string]float64 `json:"cpu"`
	Idle map[string]float64 `json:"idle"`
	// Others is the CPU time in seconds that the rest of the machine used, or that was
	// stolen from the machine. It is a disturbance.
	Others float64 `json:"others"`
}

func (r *record) pods() int { return r.Gangs * r.Size }

// patience is how many seconds, beyond the slowest binding, a gang may have some but not
// all of its Pods bound without another binding: an allowance for processes that wait for
// the CPU, and for watches.
const patience = 1

// partial counts the gangs that held GPUs in vain: whose bindings were not all in
// progress together.
func (r *record) partial() int {
	number := 0
	for _, pause := range r.Pauses {
		if pause > r.SlowestBinding+patience {
			number++
		}
	}
	return number
}

// readRecords reads a results file; a missing one is empty.
func readRecords(path string) ([]record, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var records []record
	for number, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number+1, err)
		}
		records = append(records, r)
	}
	return records, nil
}

// appendRecord appends a line to a results file.
func appendRecord(path string, r *record) (err error) {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // anybody may read it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(append(line, '\n'))
	return err
}
