// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduler tests gpu-scheduler as users run it: the real program against
// the real Kubernetes of localcluster, whose nodes and Pods are simulated. A ledger
// that follows the API server's order of events checks every test: no GPU is ever
// allocated twice, and no gang runs partially.
//
// Most tests share a cluster, in which each has nodes of a GPU model of its own. The
// stress tests have clusters of their own; TestGangsUnderStress is heavier with
//
//	go test ./test/scheduler -run Stress -args -stress.gangs=300 -stress.nodes=200
package scheduler
