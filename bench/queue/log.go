// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"time"
)

// record is a line of the log: a job that has started. Times are in UTC.
type record struct {
	Policy    string `json:"policy"`
	Nodes     int    `json:"nodes"`
	Seed      uint64 `json:"seed"`
	Job       int    `json:"job"` // its line in the trace
	Team      string `json:"team"`
	GPUs      int    `json:"gpus"`
	Submitted string `json:"submitted"`
	Started   string `json:"started"`
	Ends      string `json:"ends"`
	// Limit is what was declared, in seconds; 0 for nothing.
	Limit  float64 `json:"limit,omitempty"`
	Places []place `json:"places"`
	// Earliest, Likely and Latest were estimated when it was submitted.
	Earliest string `json:"earliest,omitempty"`
	Likely   string `json:"likely,omitempty"`
	Latest   string `json:"latest,omitempty"`
	// Promised is when its first reservation began.
	Promised string `json:"promised,omitempty"`
}

type place struct {
	Node string `json:"node"`
	GPUs []int  `json:"gpus"`
}

// logTo makes a system write a line for each job that starts.
func (s *system) logTo(out io.Writer, seed uint64) {
	if out == nil {
		return
	}
	encoder := json.NewEncoder(out)
	count := s.onStart
	s.onStart = func(j *job) {
		count(j)
		r := record{
			Policy: s.name, Nodes: s.nodes, Seed: seed, Job: j.ID, Team: j.Cluster, GPUs: j.GPUs, Submitted: stamp(j.Submitted), Started: stamp(j.started),
			Ends: stamp(j.ended), Limit: j.limit.Seconds(), Earliest: stamp(j.expected.earliest), Likely: stamp(j.expected.likely),
			Latest: stamp(j.expected.latest), Promised: stamp(j.promised),
		}
		for _, m := range j.places {
			r.Places = append(r.Places, place{Node: m.Node, GPUs: m.GPUs})
		}
		if err := encoder.Encode(r); err != nil && s.logError == nil {
			s.logError = err
		}
	}
}

// stamp formats a time; empty for none.
func stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}
