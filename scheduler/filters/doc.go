// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filters asks kube-scheduler's own filter plugins whether Pods may go to nodes,
// before a plan is made.
//
// A Trial is a copy of the scheduler's snapshot to which Pods are added, and from which
// victims are removed, one by one. The plugins see each Pod of a gang as they will when it
// is scheduled: after the Pods before it. Pods that no plugin can tell apart are one class,
// and share the results of PreFilter.
//
// A Memory keeps what nodes refused a class for, until the node or an object changes that
// the plugin which refused looks at. Which objects these are, the plugins say themselves:
// the events for which they would have a Pod queued again.
//
// A Consultant has all of that for the planner: a Checker for each search for places, a DryRun for each search for Pods
// to preempt, the requests that are known to find no place, and the gangs that a change of what filters look at may
// help.
package filters
