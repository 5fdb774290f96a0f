// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pace

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestTheClockGoesSlowerOnABusyMachine(t *testing.T) {
	clock := Start()
	var stop atomic.Bool
	defer stop.Store(true)
	for range 8 * runtime.GOMAXPROCS(0) {
		go func() {
			runtime.LockOSThread()
			for !stop.Load() {
				continue
			}
		}()
	}
	// More threads than cores: none gets a whole core.
	debug := runtime.GOMAXPROCS(32 * runtime.GOMAXPROCS(0))
	defer runtime.GOMAXPROCS(debug)
	begin, before := time.Now(), clock.Elapsed()
	for deadline := begin.Add(time.Minute); ; time.Sleep(period) {
		took, got := time.Since(begin), clock.Elapsed()-before
		if took > 2*time.Second && got < took*3/4 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v of %v passed beside %d busy threads", got, took, 8*runtime.NumCPU())
		}
	}
}

func TestTheClockNeverGoesBackOrAhead(t *testing.T) {
	begin := time.Now()
	clock := Start()
	last := time.Duration(0)
	for range 200 {
		now := clock.Elapsed()
		if took := time.Since(begin); now > took {
			t.Fatalf("%v of %v have passed", now, took)
		}
		if now < last-period {
			t.Fatalf("the clock went from %v back to %v", last, now)
		}
		last = now
		time.Sleep(time.Millisecond)
	}
}
