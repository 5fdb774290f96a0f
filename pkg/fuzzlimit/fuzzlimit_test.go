// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fuzzlimit_test

import (
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// recorder notes whether a test has failed.
type recorder struct {
	testing.TB

	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

// kept keeps the compiler from placing what is allocated on the stack.
var kept []byte //nolint:gochecknoglobals // the compiler must not see through it

// TestCheck is not parallel: what other tests take would count.
func TestCheck(t *testing.T) { //nolint:paralleltest // see above
	allocate := func(size int) func() { return func() { kept = make([]byte, size) } }
	tests := map[string]struct {
		limits fuzzlimit.Limits
		do     func()
		fails  bool
	}{
		"a call that takes little":                  {fuzzlimit.Limits{Bytes: 2 << 20, CPU: time.Minute}, allocate(1 << 10), false},
		"a call that allocates too much":            {fuzzlimit.Limits{Bytes: 2 << 20, CPU: time.Minute}, allocate(8 << 20), true},
		"a call that may allocate it for its input": {fuzzlimit.Limits{Bytes: 2 << 20, PerByte: 1 << 20, CPU: time.Minute}, allocate(8 << 20), false},
		"a call that computes for too long": {fuzzlimit.Limits{Bytes: 64 << 20, CPU: time.Millisecond}, func() {
			for begin := time.Now(); time.Since(begin) < 500*time.Millisecond; {
				kept = make([]byte, 1)
			}
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			fuzzlimit.Check(r, test.limits, 10, test.do)
			if r.failed != test.fails {
				t.Errorf("failed: %t, want %t", r.failed, test.fails)
			}
		})
	}
}
