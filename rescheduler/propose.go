// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

const (
	// history is how long plans that have ended are kept: they are the record of what was moved.
	history = 24 * time.Hour
	// maxHistory is how many of them are kept, unless more ended within the last hour.
	maxHistory = 100
)

// propose creates the next plan if there is one, and aborts stale proposals.
func (r *Rescheduler) propose(ctx context.Context) error {
	if r.expectations.AnyPending() {
		return nil // the caches are stale: propose in the next period
	}
	objects, err := r.gatherAll()
	if err != nil {
		return err
	}
	begin := r.deps.Clock.Now()
	plan, report := reschedule.Propose(objects, &r.options.Planner)
	r.metrics.planning.Observe(r.deps.Clock.Since(begin).Seconds())
	logger := klog.FromContext(ctx)
	for _, problem := range report.Problems {
		logger.V(2).Info("Some objects could not be read", "err", problem)
	}
	for _, verdict := range report.Waiting {
		logger.V(3).Info("Task is waiting", "gputask", klog.KRef(verdict.Task.Namespace, verdict.Task.Name), "rescheduling", verdict.Message)
	}
	for _, verdict := range report.Unhealthy {
		logger.V(2).Info("Task is on GPUs that are not healthy", "gputask", klog.KRef(verdict.Task.Namespace, verdict.Task.Name), "rescheduling", verdict.Message)
	}
	var errs []error
	for _, stale := range report.Stale {
		_, err := r.step(ctx, objects, stale.Plan, stale.Why)
		errs = append(errs, err)
	}
	if plan == nil {
		logger.V(3).Info("Nothing to move", "why", report.Why)
		return errors.Join(errs...)
	}
	created, err := r.deps.Client.FalldioV1().MovePlans().Create(ctx, plan, metav1.CreateOptions{})
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("creating a MovePlan: %w", err))...)
	}
	r.expectWrite(created)
	logger.Info("Proposed a MovePlan", "moveplan", created.Name, "reason", created.Spec.Reason, "moves", len(created.Spec.Moves),
		"costGPUSeconds", created.Spec.CostGPUSeconds, "approved", created.Spec.Approved)
	return errors.Join(errs...)
}

// deleteOldPlans deletes plans that ended long ago.
func (r *Rescheduler) deleteOldPlans(ctx context.Context) error {
	plans, err := r.ownPlans()
	if err != nil {
		return err
	}
	var errs []error
	for _, plan := range moveplan.Outdated(plans, history, maxHistory, r.deps.Clock.Now()) {
		err := r.deps.Client.FalldioV1().MovePlans().Delete(ctx, plan.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(plan.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("deleting MovePlan %s: %w", plan.Name, err))
		}
	}
	return errors.Join(errs...)
}
