// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podfacts says what has really happened to a Pod: whether a container of it has ever started,
// which of them does the work, how it ended and by whose doing, and since when by whose clock. It goes
// by what the status shows, not by lists of reasons, which grow with every version of Kubernetes.
// docs/gputask.md has the table of what counts as what.
package podfacts
