// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

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
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

// carryOut brings all plans a step further: it applies what pkg/moveplan decides. It
// returns when time alone makes another pass due, 0 for never.
func (r *rescheduler) carryOut(ctx context.Context) (again time.Duration, err error) {
	plans, err := r.ownPlans()
	if err != nil {
		return 0, err
	}
	open := slices.DeleteFunc(slices.Clone(plans), reschedule.Finished)
	r.active.Store(slices.ContainsFunc(open, isUnderWay))
	r.forgetTries(open)
	if r.unseen.any() {
		return passRetry, nil // their events come sooner
	}
	tasks, err := r.tasksOf(open)
	if err != nil {
		return 0, err
	}
	world, err := r.gather(tasks)
	if err != nil {
		return 0, err
	}
	errs := []error{r.reserve(ctx, world)}
	slices.SortFunc(open, func(a, b *v1.MovePlan) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, plan := range open {
		wait, err := r.step(ctx, world, plan, nil)
		errs = append(errs, err)
		if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	return again, errors.Join(errs...)
}

// forgetTries drops those of Pods that no plan moves any more.
func (r *rescheduler) forgetTries(open []*v1.MovePlan) {
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

// step applies one step of a plan.
func (r *rescheduler) step(ctx context.Context, world *reschedule.World, plan *v1.MovePlan, stale func(*v1.MovePlan) string) (again time.Duration, err error) {
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "moveplan", plan.Name))
	out, err := moveplan.Step(moveplan.Input{
		Plan: plan, World: world, MoveTimeout: r.moveTimeout, Stale: stale, Tries: r.tries,
		Drift: func(rest *v1.MovePlan) (string, error) { return r.drift(ctx, rest) },
		Lost:  func(task *v1.GPUTask, pod *corev1.Pod) int64 { return reschedule.Lost(task, pod, world.Now) },
	})
	if err != nil {
		return 0, err
	}
	if out.Status != nil {
		if err := r.record(ctx, plan, &out); err != nil {
			return 0, err
		}
	}
	var errs []error
	for i := range out.Count {
		errs = append(errs, r.count(ctx, &out.Count[i]))
	}
	for _, pod := range out.Evict {
		errs = append(errs, r.tryEvict(ctx, pod))
	}
	return out.LookAgainAfter, errors.Join(errs...)
}

// drift says why the rest of a plan can't be carried out any more as it was planned.
func (r *rescheduler) drift(ctx context.Context, rest *v1.MovePlan) (string, error) {
	world, err := r.gatherAll(ctx)
	if err != nil {
		return "", err
	}
	scene := reschedule.NewScene(world, &r.options)
	if text := textOf(reschedule.Valid(scene, rest, 0)); text != "" {
		return text, nil
	}
	return r.overspent(world, scene.Ledger, rest), nil
}

func textOf(problem error) string {
	if problem == nil {
		return ""
	}
	return problem.Error()
}

// overspent says which budget a plan would exceed. What counts is the work that is lost
// now: more than was foreseen if the plan has waited for its approval.
func (r *rescheduler) overspent(world *reschedule.World, ledger *reschedule.Ledger, rest *v1.MovePlan) string {
	if left, limited := ledger.MovesLeft(&r.options); limited && left < len(rest.Spec.Moves) {
		return fmt.Sprintf("%d Pods are to be moved, %d of %d are left in this hour", len(rest.Spec.Moves), left, r.options.MovesPerHour)
	}
	moved := podsMovedBy(rest)
	lost := map[string]int64{}
	for i := range world.Tasks {
		for _, pod := range world.Tasks[i].Pods {
			if moved.Has(pod.UID) {
				lost[pod.Namespace] += reschedule.Lost(world.Tasks[i].GPUTask, pod, world.Now)
			}
		}
	}
	for namespace, seconds := range lost {
		if left, limited := ledger.GPUSecondsLeft(&r.options, namespace); limited && left < seconds {
			return fmt.Sprintf("%d GPU-minutes of namespace %s would be lost, %d of %d are left in this hour",
				seconds/60, namespace, left/60, r.options.GPUMinutesPerHour)
		}
	}
	return ""
}

// record writes a plan's new status and tells what has happened.
func (r *rescheduler) record(ctx context.Context, plan *v1.MovePlan, out *moveplan.Output) error {
	changed := *plan // shallow: the client only reads it
	changed.Status = *out.Status
	written, err := r.controller.clients.tasks.FalldioV1().MovePlans().UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil // somebody deleted it: what it has reserved is removed
	}
	if err != nil {
		return fmt.Errorf("writing the status of MovePlan %s: %w", plan.Name, err)
	}
	r.unseen.wrote(written)
	r.sawCached(written.Name)
	if plan.Status.Phase != out.Status.Phase {
		klog.FromContext(ctx).Info("MovePlan changed", "from", plan.Status.Phase, "to", out.Status.Phase, "reason", out.Status.Reason, "message", out.Status.Message)
	}
	r.tell(plan, out.Events)
	r.metrics.observe(plan, out.Status)
	return nil
}

// sawCached looks whether the cache shows what was written: its event may have come
// before the answer.
func (r *rescheduler) sawCached(name string) {
	if cached, err := r.plans.Get(name); err == nil {
		r.unseen.saw(cached)
	}
}

// tell records events, of the plan and of tasks.
func (r *rescheduler) tell(plan *v1.MovePlan, events []moveplan.Event) {
	for i := range events {
		event := &events[i]
		kind := corev1.EventTypeNormal
		if event.Warning {
			kind = corev1.EventTypeWarning
		}
		if event.Task == nil {
			r.controller.recorder.Event(plan, kind, event.Reason, event.Message)
		} else if task, err := r.controller.tasks.GPUTasks(event.Task.Namespace).Get(event.Task.Name); err == nil {
			r.controller.recorder.Event(task, kind, event.Reason, event.Message)
		}
	}
}

// count writes into a task's status that it was moved. A conflict is tried again when
// the cache shows why.
func (r *rescheduler) count(ctx context.Context, count *moveplan.Count) error {
	task, err := r.controller.tasks.GPUTasks(count.Namespace).Get(count.Name)
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
	_, err = r.controller.clients.tasks.FalldioV1().GPUTasks(task.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("counting a move of GPUTask %s/%s: %w", task.Namespace, task.Name, err)
	}
	return nil
}

// tryEvict evicts a Pod and remembers the answer.
func (r *rescheduler) tryEvict(ctx context.Context, pod *corev1.Pod) error {
	try := moveplan.Try{At: r.controller.clock.Now()}
	results := r.controller.metrics.podsEvicted
	err := r.evict(ctx, pod)
	switch {
	case err == nil:
		results.WithLabelValues("success").Inc()
		klog.FromContext(ctx).Info("Evicted Pod", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
		try.Granted = true
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // gone, or not as it was: the cache shows it in a moment
	case apierrors.IsTooManyRequests(err):
		results.WithLabelValues("refused").Inc()
		try.Refusal = err.Error()
		err = nil
	default:
		results.WithLabelValues("error").Inc()
		try.Refusal = err.Error()
		err = fmt.Errorf("evicting Pod %s: %w", klog.KObj(pod), err)
	}
	r.tries[pod.UID] = try
	return err
}

// steer makes Pods that a plan moves prefer the nodes that they are moved to.
func (r *rescheduler) steer(pods []*corev1.Pod) error {
	if r == nil || !r.active.Load() || len(pods) == 0 {
		return nil
	}
	plans, err := r.ownPlans()
	if err != nil {
		return err
	}
	for _, pod := range pods {
		moveplan.Steer(pod, moveplan.Destination(plans, pod, metav1.GetControllerOf(pod)))
	}
	return nil
}

// moves is true while a plan moves Pods of the task: that they are lost is no surprise.
func (r *rescheduler) moves(task types.UID) bool {
	if r == nil || !r.active.Load() {
		return false
	}
	plans, err := r.ownPlans()
	return err == nil && slices.ContainsFunc(plans, func(plan *v1.MovePlan) bool { return moveplan.Moves(plan, task) })
}
