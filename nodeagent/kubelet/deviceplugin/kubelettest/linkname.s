// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// The compiler accepts a function without a body, which newManagerImpl is, only
// in a package with assembly.
