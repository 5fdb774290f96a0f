// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

const (
	// settleLimit is how long a moved task may take to run again before the rescheduler
	// stops moving tasks until its next period: the cluster is not in the state that was
	// assumed.
	settleLimit = 2 * time.Minute
	settleCheck = 500 * time.Millisecond
)

// repair moves misplaced tasks, one after the other, and stops at the first one that does
// not run again in time. Each task is tried once, on fresh data: much may have changed
// while the previous one settled. It yields to a plan that is or could be carried out: one
// thing at a time.
func (r *Rescheduler) repair(ctx context.Context) error {
	tried := sets.New[types.UID]()
	for ctx.Err() == nil {
		objects, err := r.gatherTasks()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(objects.Plans, isUnderWay) {
			return nil
		}
		candidates := r.candidates(objects)
		next := slices.IndexFunc(candidates, func(move reschedule.Move) bool { return !tried.Has(move.Task.UID) })
		if next < 0 {
			return nil
		}
		move := candidates[next]
		tried.Insert(move.Task.UID)
		logger := klog.LoggerWithValues(klog.FromContext(ctx), "gputask", klog.KObj(move.Task), "reason", move.Reason)
		if move.NeedsRoom {
			running, err := r.deps.Pods.Running()
			if err != nil {
				return err
			}
			if !reschedule.HasRoom(move.Pods, objects.Nodes, running) {
				logger.V(2).Info("Not moved: no room elsewhere")
				continue
			}
			if why := r.overBudget(objects, move); why != "" {
				logger.V(2).Info("Not moved: the budget is used up", "why", why)
				continue
			}
		}
		if err := r.move(klog.NewContext(ctx, logger), move); err != nil {
			return err
		}
	}
	return nil
}

// candidates returns the misplaced tasks and, in mode Recreate, those that have been
// pending for long.
func (r *Rescheduler) candidates(objects *clusterview.Objects) []reschedule.Move {
	if r.options.Planner.Mode == reschedule.Recreate {
		return reschedule.Candidates(objects.Tasks, objects.Nodes, r.options.Period, objects.Now)
	}
	return reschedule.Misplaced(objects.Tasks, objects.Nodes, objects.Now)
}

// isUnderWay reports whether a plan is being carried out or is approved.
func isUnderWay(plan *v1.MovePlan) bool {
	return !moveplan.Finished(plan) && (plan.Spec.Approved || plan.Status.Phase == v1.PlanExecuting)
}

func (r *Rescheduler) move(ctx context.Context, move reschedule.Move) error {
	logger := klog.FromContext(ctx)
	evicted, err := r.evictAll(ctx, move.Pods)
	if err != nil || evicted == 0 {
		return err
	}
	logger.Info("Rescheduled", "pods", evicted)
	if !move.NeedsRoom {
		return nil // it held nothing: no Event, and nothing to wait for
	}
	r.repairs.add(move, r.deps.Clock.Now())
	r.deps.Recorder.Eventf(move.Task, corev1.EventTypeNormal, "Rescheduled", "moves to another node: %s", move.Reason)
	return r.waitUntilSettled(ctx, move)
}

func (r *Rescheduler) waitUntilSettled(ctx context.Context, move reschedule.Move) error {
	err := wait.PollUntilContextTimeout(ctx, settleCheck, settleLimit, false, func(context.Context) (bool, error) {
		if plans, err := r.ownPlans(); err != nil || slices.ContainsFunc(plans, isUnderWay) {
			return true, err // an approved plan must not wait
		}
		task, err := r.deps.GPUTasks.GPUTasks(move.Task.Namespace).Get(move.Task.Name)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		return reschedule.Settled(clusterview.Task{GPUTask: task, Pods: r.deps.PodsOf(task)}, move.Pods), nil
	})
	if err != nil {
		return fmt.Errorf("GPUTask %s was rescheduled and does not run again after %v: %w", klog.KObj(move.Task), settleLimit, err)
	}
	return nil
}
