// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fuzzlimit bounds what a call may take in a fuzz target. A parser that needs much memory
// or time for a small input is a defect that shows in no result and as no panic.
package fuzzlimit

import (
	"runtime/metrics"
	"syscall"
	"testing"
	"time"
)

// Limits are what a call may take.
type Limits struct {
	// Bytes is how much it may allocate, freed memory included: a fixed part, and PerByte for each
	// byte of its input.
	Bytes, PerByte uint64
	// CPU is how long it may compute, in all threads together.
	CPU time.Duration
}

// Parsing is for what reads an input once: some kilobytes for each byte are more than any decoder
// of JSON or YAML takes for the structures that it fills in.
var Parsing = Limits{Bytes: 4 << 20, PerByte: 4 << 10, CPU: 2 * time.Second} //nolint:gochecknoglobals // a constant

// Check calls do, and fails the test if it takes more than an input of that many bytes may. It
// counts what the whole process takes, so nothing else may run beside it: the testing package runs
// fuzz targets after all tests.
func Check(tb testing.TB, limits Limits, input int, do func()) {
	tb.Helper()
	bytesBefore, cpuBefore := allocated(), cpu()
	do()
	most := limits.Bytes + limits.PerByte*uint64(input) //nolint:gosec // a length
	if took := allocated() - bytesBefore; took > most {
		tb.Errorf("%d bytes of input took %d bytes of memory, at most %d are expected", input, took, most)
	}
	if took := cpu() - cpuBefore; took > limits.CPU {
		tb.Errorf("%d bytes of input took %v of CPU time, at most %v are expected", input, took, limits.CPU)
	}
}

// allocated returns how many bytes the process has allocated since it started.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// cpu returns how long the process has computed.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // it fails for invalid arguments only
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
