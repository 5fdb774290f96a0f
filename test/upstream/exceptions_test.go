// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

// exceptions are the workloads that do not run, with the reason. All others do, also those
// that a later version of Kubernetes adds.
var exceptions = map[string]string{}
