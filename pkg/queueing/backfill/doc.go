// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backfill books places in time: for the waiting jobs that come first in the
// order, which GPUs they get and from when, given when running jobs are expected to end. It
// is pure.
//
//   - Plan makes the bookings; Revise keeps those of the last time as long as they hold,
//     and says what moved, and why.
//   - Shadows returns what must stay free for them while another job is placed now. A job that
//     ends before a booking begins is not in its way: so short jobs fill the time until
//     a large one starts.
//
// # How a booking is found
//
// Jobs are taken in their order; each booking stands in the way of those after it
// (conservative backfilling among the first K, Mu'alem and Feitelson 2001). The places come
// from the engine, pkg/placement, on a cluster in which Pods that will have ended are removed,
// inside a trial that is undone.
//
// Planning at each of thousands of ends would take too long. The calendar counts instead, in
// one pass over the ends, at which times enough cards are free on enough nodes. These are
// the only times at which the gang can fit. The first of them nearly always is the right one;
// where CPU, topology or selectors stand in the way, the search doubles its steps until the
// gang fits, and then bisects. As a booking that begins later may block a time in between,
// this finds a time at which the gang fits, but not always the first.
package backfill
