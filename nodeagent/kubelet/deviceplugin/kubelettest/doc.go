// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubelettest tests the device plugin on the real kubelet's device
// manager, which runs inside the test. It has nothing but tests, so that only
// they link Kubernetes.
package kubelettest
