// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history keeps what a scheduler has learned from the past over restarts: in a ConfigMap,
// which has a section for each thing that is learned. Who leads reads it when it takes over, and
// writes it from time to time and when it ends. Nothing depends on it: without it, a scheduler
// learns anew.
package history
