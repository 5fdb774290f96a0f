// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package realnode tests the node agent and the DRA driver on a real node, which package
// test/node runs. Containers really run, and the tests check which devices they see. Pods of a gang
// find each other through a real Pod network and CoreDNS. Tasks lose Pods to a full disk, to a taint
// and to reboots, and go on.
package realnode
