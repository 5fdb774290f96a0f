// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal records the scheduler's last decisions in a bounded ring of files, with all that is
// needed to make them again: see pkg/journal for the format.
//
// The scheduling cycle only appends to a buffer. A goroutine of the Recorder's own encodes and writes
// what is there, and the cycle never waits for it: what does not fit in the buffer is dropped and
// counted, and recording goes on with a new checkpoint. So it does when the disk fails.
package journal
