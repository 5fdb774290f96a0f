// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade replaces the processes of the previous version by those of this one, one after
// the other, and goes back, on a local cluster with running and waiting tasks and a move under
// way. Nothing may restart or be lost, whichever versions run beside each other.
package upgrade
