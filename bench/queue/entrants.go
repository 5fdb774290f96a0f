// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

// entrant is a way to serve a queue.
type entrant struct {
	name, title string
	options     queueing.Options
	// order is another order than that of the options; nil for none.
	order orderOf
	// reserved is how many waiting jobs have reservations in time. Without any, jobs that do
	// not fit are passed by those that do.
	reserved int
	// keep is true if a job keeps its reservation although others have come before it since.
	keep bool
	// strict is true if nobody may pass.
	strict bool
	// claims is true if starving jobs claim nodes for a while.
	claims bool
	// exact is true if all durations are known, whatever was declared.
	exact bool
}

// orderOf returns the keys by which waiting jobs are sorted.
type orderOf func(s *system, j *job) float64

// ours is the name of the policy that is the product's default.
const ours = string(queueing.Deadline)

// halfLife is that of usage.
const halfLife = 24 * time.Hour

// entrants returns all policies, ours first, the oracle last.
func entrants(reserved int) []entrant {
	fifo := queueing.Options{Policy: queueing.FIFO}
	return []entrant{
		{name: ours, title: "virtual deadline × fair share (the default)", options: queueing.Options{Policy: queueing.Deadline}, reserved: reserved},
		{name: "fairshare", title: "fair share", options: queueing.Options{Policy: queueing.FairShare}, reserved: reserved},
		{name: "strict", title: "strict FIFO", options: fifo, strict: true},
		{name: "skip", title: "FIFO that skips what does not fit", options: fifo},
		{name: "claims", title: "the same with claims (before queues)", options: fifo, claims: true},
		{name: "easy", title: "EASY: FIFO, one reservation", options: fifo, reserved: 1},
		{name: "conservative", title: "conservative: FIFO, 16 reservations", options: fifo, reserved: 16},
		{name: "multifactor", title: "Slurm's multifactor, 8 reservations", options: queueing.Options{Policy: queueing.Multifactor}, reserved: 8},
		{name: "drf", title: "dominant share between virtual clusters", options: fifo, order: dominantShare},
		{name: "oracle", title: "smallest area first, exact durations", options: fifo, order: area, reserved: 1, exact: true},
	}
}

// dominantShare serves the virtual cluster that holds the least (DRF with one resource).
func dominantShare(s *system, j *job) float64 {
	const century = 100 * 365 * 24 * 3600
	return float64(s.teams[j.Cluster].held)*century + float64(j.Submitted.Unix())
}

// area serves the job that needs the least GPU time.
func area(_ *system, j *job) float64 { return j.Duration.Seconds() * float64(j.GPUs) }

// names returns the names of all policies.
func names() []string {
	var list []string
	for _, e := range entrants(0) {
		list = append(list, e.name)
	}
	return list
}

// find returns the policy with a name.
func find(name string, reserved int) (entrant, error) {
	all := entrants(reserved)
	at := slices.IndexFunc(all, func(e entrant) bool { return e.name == name })
	if at < 0 {
		return entrant{}, fmt.Errorf("--policy: must be one of %s, is %q", strings.Join(names(), ", "), name)
	}
	return all[at], nil
}

// The values of --estimates: what is known of durations.
const (
	exact     = "exact"
	declared  = "declared"
	predicted = "predicted"
	mixed     = "mixed"
)

func estimates() []string { return []string{exact, declared, predicted, mixed} }
