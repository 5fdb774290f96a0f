// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command queue replays a trace of jobs of several teams in virtual time, with the product's
// order, reservations, estimates and placement, and with other ways to serve a queue.
// docs/benchmarks.md has the source of the trace and the results.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/bench/queue/trace"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench/queue: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	debug.SetGCPercent(400) // there is little to keep, and much to forget
	t, err := trace.Read(o.trace)
	if err != nil {
		return err
	}
	if o.report != "" {
		return (&report{options: o, trace: t, out: out}).write(o.report)
	}
	return o.replayPolicies(t, out)
}

// replayPolicies replays the policies of the flags, with each seed.
func (o *options) replayPolicies(t *trace.Trace, out io.Writer) (err error) {
	var log io.Writer
	if o.log != "" {
		file, err := os.Create(o.log)
		if err != nil {
			return fmt.Errorf("--log: %w", err)
		}
		buffer := bufio.NewWriter(file)
		log = buffer
		defer func() { err = errors.Join(err, buffer.Flush(), file.Close()) }()
	}
	for policy := range strings.SplitSeq(o.policy, ",") {
		e, err := find(policy, o.reserved)
		if err != nil {
			return err
		}
		e.keep = o.keep
		var results []*result
		for seed := o.seed; seed < o.seed+uint64(o.seeds); seed++ { //nolint:gosec // positive
			r, err := o.replay(e, t, seed, log)
			if err != nil {
				return err
			}
			fmt.Fprintln(out, r.line())
			results = append(results, r)
		}
		if len(results) > 1 {
			fmt.Fprintf(out, "mean of %d: %s\n", len(results), merged(results).line())
		}
	}
	return nil
}

// replay replays the trace once; log may be nil.
func (o *options) replay(e entrant, t *trace.Trace, seed uint64, log io.Writer) (*result, error) {
	begin := time.Now()
	jittered := t.Jittered(seed)
	s, err := newSystem(e, o.nodes, o.estimates, jittered, seed)
	if err != nil {
		return nil, err
	}
	s.forecasts.every, s.forecasts.replayed = o.forecasts, o.replayed
	s.logTo(log, seed)
	if err := errors.Join(s.run(jittered), s.logError); err != nil {
		return nil, fmt.Errorf("%s, seed %d: %w", e.name, seed, err)
	}
	r := s.result()
	r.wall = time.Since(begin)
	return r, nil
}

// line returns a result in one line.
func (r *result) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %d %-9s mean %.2f p50 %.2f p95 %.1f p99 %.0f |", r.entrant.name, r.nodes, r.estimates, r.all.mean, r.all.p50, r.all.p95, r.all.p99)
	for i, w := range r.sizes {
		fmt.Fprintf(&b, " %s: %.2f/%.1f/%.0f", sizes[i].title, w.mean, w.p95, w.longest)
	}
	fmt.Fprintf(&b, " | day %.0f slow %.1f worst %.1f %.2f idle %.3f deficit %.3f alloc %.3f", r.overDay, r.slowdown, r.worstTeam, r.worstTurnaround, r.avoidable, r.deficit, r.allocated)
	fmt.Fprintf(&b, " | reserved %.0f later %.0f earlier %.0f", r.reserved, r.later, r.earlier)
	if f := &r.forecast; f.jobs > 0 {
		fmt.Fprintf(&b, " | estimates %.0f within %.3f late %.3f covered %.3f error %.2f of %.2f, after 6 h %.3f of %.0f", f.jobs, f.within, f.late, f.covered, f.medianError, f.medianWait, f.longWithin, f.longJobs)
	}
	fmt.Fprintf(&b, " | %v", r.wall.Round(time.Second))
	return b.String()
}
