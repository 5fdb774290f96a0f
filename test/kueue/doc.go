// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kueue tests GPUTasks and the admission check gpu-fit with the real Kueue, on a local
// cluster. Kueue is built unchanged from its module, in the module kueued beside this package, and
// installed with its own CRDs and webhooks: those of its API, of Jobs and of Pods. Two things stand in for
// what a local cluster lacks. Its API server finds Kueue's webhooks by a Service that is another
// name for localhost, and the test writes the Secret with Kueue's certificates into a folder, as a
// kubelet would.
package kueue
