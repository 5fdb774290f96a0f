// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

// executePlans advances all plans by one step: it applies what pkg/moveplan decides. It
// returns after what time another pass is due even if nothing changes, 0 for never.
func (r *Rescheduler) executePlans(ctx context.Context) (again time.Duration, err error) {
	plans, err := r.ownPlans()
	if err != nil {
		return 0, err
	}
	open := slices.DeleteFunc(slices.Clone(plans), moveplan.Finished)
	r.executing.Store(slices.ContainsFunc(open, isUnderWay))
	r.forgetTries(open)
	if r.expectations.AnyPending() {
		return passRetry, nil // the events trigger a pass earlier
	}
	tasks, err := r.tasksOf(open)
	if err != nil {
		return 0, err
	}
	objects, err := r.gather(tasks)
	if err != nil {
		return 0, err
	}
	errs := []error{r.reserve(ctx, objects)}
	slices.SortFunc(open, func(a, b *v1.MovePlan) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, plan := range open {
		wait, err := r.step(ctx, objects, plan, "")
		errs = append(errs, err)
		if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	return again, errors.Join(errs...)
}

// forgetTries drops the evictions of Pods that no plan moves any more.
func (r *Rescheduler) forgetTries(open []*v1.MovePlan) {
	if len(r.tries) == 0 {
		return
	}
	moved := podsMovedBy(open...)
	maps.DeleteFunc(r.tries, func(pod types.UID, _ moveplan.Try) bool { return !moved.Has(pod) })
}

// podsMovedBy returns the UIDs of the Pods that plans move.
func podsMovedBy(plans ...*v1.MovePlan) sets.Set[types.UID] {
	moved := sets.New[types.UID]()
	for _, plan := range plans {
		for i := range plan.Spec.Moves {
			moved.Insert(plan.Spec.Moves[i].PodUID)
		}
	}
	return moved
}

// step performs one step of a plan.
func (r *Rescheduler) step(ctx context.Context, objects *clusterview.Objects, plan *v1.MovePlan, stale string) (again time.Duration, err error) {
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "moveplan", plan.Name))
	in := moveplan.Input{
		Plan: plan, Objects: objects, MoveTimeout: r.options.MoveTimeout, Stale: stale, Tries: r.tries,
		Lost: func(task *v1.GPUTask, pod *corev1.Pod) int64 { return reschedule.Lost(task, pod, objects.Now) },
	}
	out, err := moveplan.Step(in)
	if err == nil && out.CheckDrift != nil {
		in.Drift = r.drift(out.CheckDrift)
		out, err = moveplan.Step(in)
	}
	if err != nil {
		return 0, err
	}
	if out.Status != nil {
		if err := r.writeStatus(ctx, plan, &out); err != nil {
			return 0, err
		}
	}
	var errs []error
	for i := range out.Count {
		errs = append(errs, r.count(ctx, &out.Count[i]))
	}
	for _, pod := range out.AskForCheckpoint {
		errs = append(errs, r.askForCheckpoint(ctx, pod))
	}
	for _, pod := range out.Evict {
		errs = append(errs, r.tryEvict(ctx, pod))
	}
	return out.RequeueAfter, errors.Join(errs...)
}

// writeStatus writes a plan's new status, then updates Events, log and metrics.
func (r *Rescheduler) writeStatus(ctx context.Context, plan *v1.MovePlan, out *moveplan.Output) error {
	changed := *plan // shallow: the client only reads it
	changed.Status = *out.Status
	written, err := r.deps.Client.FalldioV1().MovePlans().UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil // deleted in the meantime: the next pass removes its reservations
	}
	if err != nil {
		return fmt.Errorf("writing the status of MovePlan %s: %w", plan.Name, err)
	}
	r.expectWrite(written)
	if plan.Status.Phase != out.Status.Phase {
		klog.FromContext(ctx).Info("MovePlan changed", "from", plan.Status.Phase, "to", out.Status.Phase, "reason", out.Status.Reason, "message", out.Status.Message)
	}
	r.recordEvents(plan, out.Events)
	r.metrics.observe(plan, out.Status)
	return nil
}

// expectWrite expects the cache to show a plan as it was written, unless it already does:
// the event may have arrived before the response.
func (r *Rescheduler) expectWrite(written *v1.MovePlan) {
	r.expectations.ExpectVersion(written.Name, written.ResourceVersion)
	if cached, err := r.plans.Get(written.Name); err == nil {
		r.expectations.ObserveVersion(cached.Name, cached.ResourceVersion)
	}
}

// recordEvents records Events for the plan and for tasks.
func (r *Rescheduler) recordEvents(plan *v1.MovePlan, events []moveplan.Event) {
	for i := range events {
		event := &events[i]
		kind := corev1.EventTypeNormal
		if event.Warning {
			kind = corev1.EventTypeWarning
		}
		if event.Task == nil {
			r.deps.Recorder.Event(plan, kind, event.Reason, event.Message)
		} else if task, err := r.deps.GPUTasks.GPUTasks(event.Task.Namespace).Get(event.Task.Name); err == nil {
			r.deps.Recorder.Event(task, kind, event.Reason, event.Message)
		}
	}
}

// count records in a task's status that it was moved. After a conflict, a later pass
// retries with the updated cache.
func (r *Rescheduler) count(ctx context.Context, count *moveplan.Count) error {
	task, err := r.deps.GPUTasks.GPUTasks(count.Namespace).Get(count.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if task.UID != count.UID || count.IsDone(task) {
		return nil
	}
	changed := *task // shallow: the client only reads it
	changed.Status.Moves++
	changed.Status.LastMove = &count.Move
	_, err = r.deps.Client.FalldioV1().GPUTasks(task.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("counting a move of GPUTask %s/%s: %w", task.Namespace, task.Name, err)
	}
	return nil
}

// drift checks whether the rest of a plan can still be carried out as it was planned.
func (r *Rescheduler) drift(rest *v1.MovePlan) *moveplan.Drift {
	objects, err := r.gatherAll()
	if err != nil {
		return &moveplan.Drift{Err: err}
	}
	planner := r.newPlanner(objects)
	if err := reschedule.Valid(planner, rest, 0); err != nil {
		return &moveplan.Drift{Why: err.Error()}
	}
	return &moveplan.Drift{Why: r.exceededBudget(planner.Ledger, len(rest.Spec.Moves), evictedBy(rest, objects.Tasks), objects.Now)}
}

// evictedBy returns the tasks of which a plan evicts Pods, with these.
func evictedBy(plan *v1.MovePlan, tasks []clusterview.Task) []evictedTask {
	moved := podsMovedBy(plan)
	var list []evictedTask
	for i := range tasks {
		if pods := slices.DeleteFunc(slices.Clone(tasks[i].Pods), func(pod *corev1.Pod) bool { return !moved.Has(pod.UID) }); len(pods) > 0 {
			list = append(list, evictedTask{tasks[i].GPUTask, pods})
		}
	}
	return list
}
