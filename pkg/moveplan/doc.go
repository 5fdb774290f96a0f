// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package moveplan decides how a MovePlan is carried out. It is pure: the controller
// gathers the state of the cluster, and applies what Step returns.
//
//	Proposed ──approved──▶ Approved ──no other executes──▶ Executing ──▶ Done
//	    │                     │                               │
//	    └──────── stale, abort, drift, time limit ────────────┴──────▶ Aborted
//
// # Status first
//
// A Step returns either a new status, which records what has happened or what is intended,
// or the actions that follow from the stored status: Pods to evict, tasks whose moves are
// to be counted. Never both: every action is recorded before it is taken. So the process
// can be killed between any two requests, and the next one continues from what it finds.
// Progress is read from the Pods: a Pod has left when the one with its UID is gone, and has
// arrived when another one of its name runs.
//
// # Turns
//
// The moves of a turn are those of one Pod or of one gang. Before a turn begins, all places
// that the plan needs are reserved (see Reservations), the PodDisruptionBudgets allow all
// its evictions, and the rest of the plan can still be carried out as planned. Then the
// intent is recorded, then the Pods are evicted, and when all their replacements run at
// their destinations, the next turn begins.
//
// # Stopping early
//
// A plan that can't continue does not end in the middle of a turn: status.reason says why
// it will end, no more Pods are evicted, and it stays Executing until the evicted Pods have
// nodes again, wherever these are. The places that they left are reserved for them if their
// destinations turned out to be wrong.
package moveplan
