// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kueued has no code: its module says which version of Kueue the tests in test/kueue build,
// with "go build sigs.k8s.io/kueue/cmd/kueue", and which of its dependencies. The checksums were
// taken from Kueue's own go.sum, since the public checksum database lacks one of these modules.
package kueued
