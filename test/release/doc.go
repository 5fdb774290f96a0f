// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release makes a release and installs it as a user would, on a real node (package
// test/node) with Kubernetes' own scheduler: the images are imported into containerd, the
// manifests applied, and all processes run as Pods with their probes, limits, security contexts
// and permissions.
package release
