// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package accounting keeps the books of GPU time: how much was used, waited for and lost, by namespace, task, queue,
// model and labels. It is pure: time comes in as an argument.
//
//   - A Book is one day (UTC), in buckets of an hour. It knows up to when everything is counted.
//   - Charge counts what Pods have done from then up to a later time. What is counted depends on the times
//     in the Pods alone, so that it does not matter how often, when, and by which process Charge is called:
//     each second is counted once.
//   - Encode writes a Book within bounds: when it has too many rows, the tasks with the least GPU time become one row.
//   - Summarize answers questions about Books.
//
// docs/usage.md says what the numbers mean.
package accounting
