// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// workers is how many requests the benchmark makes at the same time.
const workers = 32

// arrivals returns when each gang comes after the start: at random, so many Pods a
// second on average; all at once if that is 0. Equal seeds give equal arrivals.
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

// play has the workers do the jobs of each gang when it is due, in this order.
func play(ctx context.Context, gangs []*gang, due []time.Time, jobsOf func(*gang) []job) error {
	group, ctx := errgroup.WithContext(ctx)
	queue := make(chan job, workers)
	group.Go(func() error {
		defer close(queue)
		for i, g := range gangs {
			if err := sleepUntil(ctx, due[i]); err != nil {
				return err
			}
			for _, next := range jobsOf(g) {
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

func sleepUntil(ctx context.Context, moment time.Time) error {
	return sleep(ctx, time.Until(moment))
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
