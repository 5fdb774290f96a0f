// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bytes"
	"sync"
)

// Output collects what a program prints, and can be read while it runs. It is safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns what was printed so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
