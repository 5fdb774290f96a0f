// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package node runs a real node for tests: the real kubelet with containerd and runc, under
// the control plane of localcluster. Containers really run on it.
//
// Everything runs in namespaces of its own (mounts, processes, network, IPC, host name), which
// the test binary enters by re-executing itself. They vanish with it, however it ends; nothing
// on the machine is changed. It needs root, Linux, runc and iproute2, but no network, no
// registry and no Docker. If one of them is missing, the tests learn which, so that they can be
// skipped with the reason; with REALNODE_REQUIRED=1 they fail instead. The Pod network needs
// containernetworking-plugins, too. REALNODE_KEEP=1 keeps all logs of a failed run.
package node
