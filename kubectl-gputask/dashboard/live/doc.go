// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live keeps rows of JSON and tells any number of viewers what has changed in them. A viewer that reads slowly
// gets the changes of a longer time at once, so that it costs no memory, and a change is written as text once for all
// viewers that are equally far.
package live
