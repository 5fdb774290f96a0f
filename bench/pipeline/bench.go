// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// bench makes all measurements.
type bench struct {
	options *options
	out     io.Writer
	records []record
}

// run measures round by round, each system in turn, so that all see the same
// machine. Each round begins with another system.
func (b *bench) run(ctx context.Context) error {
	o := b.options
	for round := range o.rounds {
		for _, k := range o.kinds {
			for i := range o.systems {
				m := measurement{system: o.systems[(i+round)%len(o.systems)], full: k, kind: k.scaled(o.scale), round: round}
				if err := b.measure(ctx, &m); err != nil {
					return err
				}
			}
		}
	}
	return b.latencies(ctx)
}

func (b *bench) latencies(ctx context.Context) error {
	o := b.options
	for round := range o.latencyRounds {
		for _, k := range o.kinds {
			rate := floorRate(b.counted(), k) / 2
			if rate == 0 {
				return fmt.Errorf("--latency-rounds: there is no measurement of the floor with %v that others did not disturb", k)
			}
			for i := range o.systems {
				m := measurement{system: o.systems[(i+round)%len(o.systems)], full: k, kind: k.scaled(o.scale), round: round, rate: rate}
				if err := b.measure(ctx, &m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// counted returns the records that count.
func (b *bench) counted() results {
	return resultsOf(b.records, b.options.scale, b.options.others)
}

// measure makes a measurement, unless it is in the records already.
func (b *bench) measure(ctx context.Context, m *measurement) error {
	for _, r := range b.counted().of(m.system.name, m.full, m.rate > 0) {
		if r.Round == m.round {
			return nil
		}
	}
	if b.options.quiet > 0 {
		if err := awaitQuiet(ctx, b.options.quiet); err != nil {
			return err
		}
	}
	begin := time.Now()
	r, err := measure(ctx, b.options, m)
	if err != nil {
		return err
	}
	b.records = append(b.records, *r)
	if b.options.results != "" {
		if err := appendRecord(b.options.results, r); err != nil {
			return fmt.Errorf("--results: %w", err)
		}
	}
	printRecord(b.out, m, r)
	fmt.Fprintf(b.out, "  (%v in all)\n", time.Since(begin).Round(time.Second))
	return nil
}
