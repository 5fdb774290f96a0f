// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package realnode tests the node agent on a real node: the real kubelet with
// containerd and runc, under the control plane of localcluster. Containers
// really run, and what they see of their devices is what the tests look at.
//
// Everything runs in namespaces of its own (mounts, processes, network, IPC,
// host name), which the test binary enters by starting itself once more. What
// happens there ends with it, however it ends; nothing on the machine is
// changed. It needs root, Linux, containerd, runc and iproute2, but no network,
// no registry and no Docker. Where one of them is missing the tests are
// skipped, and say why; with REALNODE_REQUIRED=1 they fail instead.
// REALNODE_KEEP=1 keeps all logs of a run that failed.
package realnode
