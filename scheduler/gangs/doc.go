// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gangs tracks which Pods belong together and how far each gang is on its
// way to its nodes. It decides which Pods may enter the scheduling queue, when a
// gang's members may be bound, and when to retry. It has no client and no clock: Pods
// and the time are passed in, and the actions to take are returned.
//
// The states of a gang:
//
//	gathering  fewer members exist than have to start together: none is queued
//	waiting    one member, the leader, is queued; the others are held back
//	planned    the leader's turn came and there is a place for all: all are queued,
//	           each with a seat, and the first ones wait at the barrier
//	binding    the last one has come: all are bound at the same time
//
// Any failure before the barrier opens aborts the plan for all of them at once, and
// the gang holds nothing. A Pod in no gang is a gang of one.
package gangs
