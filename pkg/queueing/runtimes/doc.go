// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runtimes predicts how long jobs run, from how long others ran. It is pure: time
// comes in as durations.
//
// A History has histograms of run times for groups of jobs, from specific (same namespace,
// name stem and size) to general (all), and histograms of what part of a declared limit was
// used. A new job is estimated from the most specific group with enough jobs; see
// History.Estimate. An Estimate answers for a job that waits and, given for how long it has
// run, for a job that runs.
package runtimes
