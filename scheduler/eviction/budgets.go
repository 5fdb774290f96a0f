// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"sync/atomic"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"falldio.github.io/gpu-controller/pkg/disruption"
)

// budgets are the PodDisruptionBudgets.
type budgets struct {
	// pending are evictions that the statuses of the budgets may not show yet.
	pending disruption.Pending
	// awaited is true if a preemptor may be waiting for them, and raised counts how often that was ended by a budget
	// that allows more.
	awaited atomic.Bool
	raised  atomic.Uint64
}

// BudgetUpdated wakes gangs if a PodDisruptionBudget allows more than before, or covers others.
func (e *Evictor) BudgetUpdated(old, object any) {
	before, known := old.(*policyv1.PodDisruptionBudget)
	after, ok := object.(*policyv1.PodDisruptionBudget)
	if known && ok && (after.Status.DisruptionsAllowed > before.Status.DisruptionsAllowed || !equality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector)) {
		e.moreAllowed()
	}
}

// BudgetGone wakes gangs as one that restricts nobody any more is gone.
func (e *Evictor) BudgetGone() { e.moreAllowed() }

// moreAllowed wakes gangs for which no Pods could be preempted, if there are any.
func (e *Evictor) moreAllowed() {
	if e.budgets.awaited.CompareAndSwap(true, false) {
		e.budgets.raised.Add(1)
		e.sources.Wake()
	}
}

// AwaitBudgets has gangs woken once a PodDisruptionBudget allows more.
func (e *Evictor) AwaitBudgets() { e.budgets.awaited.Store(true) }

// BudgetsRaised returns a number that changes when PodDisruptionBudgets allow more, if that was awaited.
func (e *Evictor) BudgetsRaised() uint64 { return e.budgets.raised.Load() }

// Budgets returns all PodDisruptionBudgets, with what they allow beyond the victims that are
// on their way out.
func (e *Evictor) Budgets() *disruption.Budgets {
	list, err := e.sources.Informers.Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		list = nil // reading a cache never fails
	}
	allowed := disruption.NewBudgets(list)
	e.budgets.pending.Subtract(allowed, e.sources.Clock.Now())
	return allowed
}
