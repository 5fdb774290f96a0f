// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests gpu-controller as users run it: the real program against
// the real Kubernetes of localcluster, whose nodes and Pods are simulated.
// Every test has a namespace of its own and a controller of its own that watches
// nothing else, so that tests can run in parallel and kill their controllers.
package e2e
