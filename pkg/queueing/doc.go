// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queueing decides who is next among waiting jobs, and who has had how much. It is
// pure: time comes in as an argument.
//
//   - Serve sorts waiting jobs: what is guaranteed first, then across queues by a policy's key, and
//     inside a queue by priority.
//   - Usage is GPU time that decays; Factors relates it to what each queue is due.
//
// Packages underneath use the order: backfill books places in time for those who come
// first, outlook estimates when everybody starts, and runtimes predicts how long jobs run.
// docs/queues.md explains how it all fits together.
package queueing
