// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kueue translates between GPUTasks and the Workloads of Kueue
// (https://kueue.sigs.k8s.io), the queueing system of Kubernetes' own batch working group: which
// Workload a task has, what the Workload's status allows the task, and what has to be written to
// the Workload. It is pure, and it does not import Kueue: its module would bring 40 others into
// ours. The types have only the fields of kueue.x-k8s.io/v1beta2 that are used here.
//
// The contract is that of Kueue's own integrations (its package jobframework): a Workload is
// created with the quota that is needed; when it is Admitted, the Pods may run, with the node labels
// of the flavors that were assigned; when it is Evicted, they have to stop, and whoever has stopped
// them gives the quota back. PodsReady and Finished are reported to Kueue.
package kueue
