// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gputask decides what happens to a GPUTask. Decide takes a task, its Pods and the
// tasks that it depends on, and returns a Plan: the status to write, the Pods to create and
// to delete, and when to decide again. It is pure: no client, no clock, no global state.
// The same input gives the same plan, so that every rule of a task's life cycle can be
// tested with a table, and a controller that is killed at any moment continues where it
// stopped.
//
// # Members and attempts
//
// A task has spec.replicas members, numbered from 0. The name of a member's Pod is derived
// from the task's name and the index, so that a Pod is never created twice. The Pod's label
// falldio.com/attempt records which attempt of the member it belongs to. The current
// attempt is in the task's status (restarts, or podRestarts with the failure policy
// RestartPod): a failure raises it, in the same write that counts the failure. From then on
// the Pods of earlier attempts are stale: they are deleted and their end is not counted
// again, however often the controller restarts in between.
//
// # What ends a Pod
//
// A Pod that ends by its own exit code succeeds or fails. A Pod that was preempted,
// evicted, rejected by its node, lost with it or deleted by somebody is lost: it is
// replaced without counting as a failure. A replacement is created only after the old Pod
// is known to be gone.
package gputask
