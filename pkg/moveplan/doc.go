// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package moveplan decides how a MovePlan is carried out. It is pure: the controller
// gathers what is to be seen, and applies what Step returns.
//
//	Proposed ──approved──▶ Approved ──no other executes──▶ Executing ──▶ Done
//	    │                     │                               │
//	    └──────── stale, abort, drift, time limit ────────────┴──────▶ Aborted
//
// # One thing at a time
//
// A Step either returns a new status, which says what has happened or what is
// intended, or what follows from the status that is stored: Pods to evict, tasks
// whose moves are to be counted. Never both: what is done was written down before. So
// the process can be killed between any two requests, and the next one goes on
// from what it finds. What has happened is read from the Pods: a Pod has left when the
// one of its UID is gone, and has arrived when another one of its name runs.
//
// # Turns
//
// The moves of a turn are those of one Pod or of one gang. Before a turn begins,
// all places that the plan needs are kept (see Reservations), the
// PodDisruptionBudgets allow all its evictions, and the rest of the plan can still be
// carried out as it was planned. Then the intent is written, then the Pods are
// evicted, and when all their replacements run where they should, the next turn
// begins.
//
// # Ends before the end
//
// A plan that can't go on does not end in the middle of a turn: status.reason says
// why it will end, nothing more is evicted, and it is Executing until the Pods that
// have left have nodes again, wherever that is. The places that they left are kept
// for them if those that they should go to turned out to be wrong.
package moveplan
