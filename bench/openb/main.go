// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command openb replays a production trace of single-Pod tasks on 1,213 nodes and
// prints how much of the GPUs is allocated when 95, 100 and 130 % of them were
// asked for. docs/benchmarks.md has the source of the trace and the results.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench/openb: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.report != "" {
		names, err := chosenParts(o.parts)
		if err != nil {
			return err
		}
		r, err := newReport(o, out)
		if err != nil {
			return err
		}
		return r.write(names)
	}
	w, err := readWorkload(o.nodes, o.trace)
	if err != nil {
		return err
	}
	if o.departures {
		return replaySteady(w, o, out)
	}
	return replaySeeds(w, o, out)
}

// demands are the demands at which the allocation is printed, in percent of the capacity.
var demands = []int{95, 100, 130}

// replaySeeds prints the allocation with each seed, and the mean of several.
func replaySeeds(w *workload, o *options, out io.Writer) (err error) {
	file, err := openLog(o.log)
	if err != nil {
		return fmt.Errorf("--log: %w", err)
	}
	defer closing(file, &err)
	e := o.entrant()
	sums := make([]float64, len(demands))
	for seed := o.seed; seed < o.seed+int64(o.seeds); seed++ {
		begin := time.Now()
		result, err := w.replay(&e, seed)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "seed %d: %d arrivals from %s, in %v; allocated", seed, len(result.arrivals), result.arrivals[0].Name,
			time.Since(begin).Round(time.Millisecond))
		for i, demand := range demands {
			sums[i] += result.at(demand)
			fmt.Fprintf(out, " at %d %%: %.2f", demand, result.at(demand))
		}
		if o.migrate > 0 {
			fmt.Fprintf(out, "; %d Pods moved", result.moved)
		}
		fmt.Fprintln(out)
		if err := writeLog(file, result.records); err != nil {
			return fmt.Errorf("--log: %w", err)
		}
		if o.bound {
			if err := printBounds(w, seed, result, out); err != nil {
				return fmt.Errorf("--bound: %w", err)
			}
		}
	}
	fmt.Fprintf(out, "mean of %d: allocated", o.seeds)
	for i, demand := range demands {
		fmt.Fprintf(out, " at %d %%: %.3f", demand, sums[i]/float64(o.seeds))
	}
	fmt.Fprintln(out)
	return nil
}

// printBounds prints the bounds at 100 % demand, and the gap to them.
func printBounds(w *workload, seed int64, result *outcome, out io.Writer) error {
	limit, err := w.bounds(seed)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  bound at 100 %%: %.2f (gap %.2f) for who may refuse Pods; %.2f (gap %.2f) for who takes the first %d, which all fit\n",
		limit.refusing, limit.refusing-result.at(100), limit.accepting, limit.accepting-result.at(100), limit.first)
	return nil
}

// replaySteady prints the results of replays with departures, for each seed.
func replaySteady(w *workload, o *options, out io.Writer) error {
	l := &load{asked: o.load, jobs: o.jobs}
	if o.durations != "" {
		var err error
		if l.timed, err = dataset.ReadPods(o.durations); err != nil {
			return fmt.Errorf("--durations: %w", err)
		}
	}
	e := o.entrant()
	for seed := o.seed; seed < o.seed+int64(o.seeds); seed++ {
		s, err := w.departures(&e, l, seed)
		if err != nil {
			return fmt.Errorf("--departures: %w", err)
		}
		fmt.Fprintf(out, "seed %d: allocated %.2f %% over time; waits: mean %.0f s, p99 %.0f s, %.2f %% of the Pods; %d wait at the end\n",
			seed, s.allocated, s.meanWait, s.longWait, s.waited, s.waiting)
	}
	return nil
}
