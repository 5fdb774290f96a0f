// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podfacts says what has really happened to a Pod: whether a container of it has ever started,
// which of them does the work, how it ended and by whose doing, and since when. It goes
// by what the status shows, not by lists of reasons, which grow with every version of Kubernetes.
// docs/gputask-failures.md has the table of what counts as what.
//
// All times are by the API server's clock. Containers begin and end by the clocks of their nodes, which are put right
// by when the node saw the Pod.
//
// The Node says no more about what has become of a Pod. While it is not ready, the Pod may still run, so that it holds
// its node: NodeNotReady is for messages. After a reboot, a Pod has no record of the boot that it began with, and its
// kubelet says within seconds how its containers ended. When the Node is gone, Kubernetes marks and deletes the Pod
// within about a minute; until then, the Node may come back under its name.
package podfacts
