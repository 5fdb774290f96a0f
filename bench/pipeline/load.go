// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// workers is the number of concurrent requests that the benchmark makes to start gangs,
// finishers the number of additional ones once gangs run: as many as gpu-controller.
const (
	workers   = 32
	finishers = 8
)

// arrivals returns when each gang arrives after the start: at random, with an average
// rate of Pods per second; all at once if the rate is 0. Equal seeds give equal arrivals.
func arrivals(k kind, rate float64, seed uint64) []time.Duration {
	times := make([]time.Duration, k.gangs)
	if rate == 0 {
		return times
	}
	dice := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
	at := time.Duration(0)
	for i := range times {
		times[i] = at
		at += time.Duration(dice.ExpFloat64() * float64(k.size) / rate * float64(time.Second))
	}
	return times
}

// play has the workers run the jobs of each gang in order, at its time after the start.
func play(ctx context.Context, works []work, start time.Time, at []time.Duration) error {
	queue := make(chan job, workers)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(queue)
		for i := range works {
			if err := sleep(ctx, time.Until(start.Add(at[i]))); err != nil {
				return err
			}
			for _, next := range works[i].starts {
				select {
				case queue <- next:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
	for range workers {
		group.Go(func() error {
			for next := range queue {
				if err := next(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// finish has the finishers run the last job, if any, of each gang that is complete, until
// all are.
func finish(ctx context.Context, works []work, complete <-chan int) error {
	group, ctx := errgroup.WithContext(ctx)
	for range finishers {
		group.Go(func() error {
			for {
				select {
				case i, more := <-complete:
					if !more {
						return nil
					}
					if last := works[i].last; last != nil {
						if err := last(ctx); err != nil {
							return err
						}
					}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
	}
	return group.Wait()
}

func sleep(ctx context.Context, duration time.Duration) error {
	if duration <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}
