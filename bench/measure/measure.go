// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package measure times ours and a baseline in turn, so that both run under the same
// conditions.
package measure

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Contest is an operation of ours and the baseline that it is compared with.
type Contest struct {
	Name     string
	Ours     func() error
	Baseline func() error
	// Than describes the baseline.
	Than   string
	Rounds int
}

// Result has the times of a Contest's rounds, sorted.
type Result struct {
	Contest
	ours, baseline []time.Duration
}

// Run times all rounds, after a first one that does not count.
func (c Contest) Run() (*Result, error) {
	result := &Result{Contest: c}
	for round := range c.Rounds + 1 {
		ours, err := timed(c.Ours)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		baseline, err := timed(c.Baseline)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.Name, c.Than, err)
		}
		if round > 0 {
			result.ours, result.baseline = append(result.ours, ours), append(result.baseline, baseline)
		}
	}
	slices.Sort(result.ours)
	slices.Sort(result.baseline)
	return result, nil
}

func timed(operation func() error) (time.Duration, error) {
	begin := time.Now()
	err := operation()
	return time.Since(begin), err
}

// Ratio returns the median of ours divided by the baseline's; less than 1 is better.
func (r *Result) Ratio() float64 {
	return float64(quantile(r.ours, 50)) / float64(quantile(r.baseline, 50))
}

// quantile returns a percentile of sorted times.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)-1)*percent/100]
}

// Print writes the results as a table.
func Print(into io.Writer, results ...*Result) error {
	table := tabwriter.NewWriter(into, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WHAT\tMEDIAN\tP99\tBASELINE\tMEDIAN\tP99\tRATIO")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%v\t%v\t%s\t%v\t%v\t%.4f\n", r.Name, short(quantile(r.ours, 50)), short(quantile(r.ours, 99)),
			r.Than, short(quantile(r.baseline, 50)), short(quantile(r.baseline, 99)), r.Ratio())
	}
	return table.Flush()
}

// short rounds to a tenth of a microsecond.
func short(d time.Duration) time.Duration { return d.Round(100 * time.Nanosecond) }
