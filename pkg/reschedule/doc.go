// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reschedule decides what to move next. It is pure: the caller gathers the
// Objects of a cluster, and carries out what is decided.
//
// # Plans
//
// Propose returns a MovePlan that makes room for a task that fits nowhere, or gives back
// whole GPUs, nodes and domains; or, in the mode Recreate, one that stops task after task
// and lets the scheduler reschedule it. A Planner views a cluster through a
// clusterview.View and knows what may be moved, and at which cost. Valid checks before each
// turn of a plan whether the rest of it can still be carried out. How a plan is carried out
// is in package moveplan.
//
// A Pod is moved only if it belongs to a GPUTask that runs with all of its Pods and allows
// it, and if limits and budgets permit; a gang moves as a whole. The cost of a move is the
// work that is lost, in GPU-seconds since the start or the last checkpoint, times the
// weight of the priority, plus a constant.
//
// # Misplaced Pods
//
// Apart from plans, two kinds of tasks are rescheduled (Candidates, Misplaced). A task
// whose Pods have all been pending for long holds nothing, so rescheduling it costs
// nothing: that is for the mode Recreate. A Pod that runs where it should not (its node is
// cordoned, or no longer has the GPU model that the task asks for) moves only if the cluster
// has room for it elsewhere, since otherwise it would be worse off than before. A running gang
// is not disturbed: its Pods work, and an administrator who wants them gone can use "kubectl
// drain". Nodes that are not ready are left to Kubernetes.
package reschedule
