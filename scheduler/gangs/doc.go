// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gangs knows which Pods belong together and how far each gang is on its
// way to its nodes. It decides who may enter the scheduling queue, when a gang's
// members may be bound, and when to try again. It knows no API server: Pods are
// told to it, the time is given to it, and what has to be done is returned.
//
// A gang's way:
//
//	gathering  fewer members exist than have to start together: nobody is queued
//	waiting    one member, the leader, is queued; the others are held back
//	planned    the leader's turn came and there is a place for all: all are queued,
//	           each with a seat, and those that come first wait at the barrier
//	binding    the last one has come: all are bound at the same time
//
// Whatever goes wrong before the barrier opens aborts the plan for all of them at
// once, and the gang holds nothing. A Pod that is alone is a gang of one.
package gangs
