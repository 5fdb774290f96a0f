// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package change changes tasks and plans, for the commands and for the page in a browser.
package change

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/moveplan"
)

// FieldManager is the manager that the API server records for the fields that are set here.
const FieldManager = "kubectl-gputask"

// Suspend sets spec.suspend of a task; already is true if there was nothing to do. The UID keeps a new task of the same
// name unchanged.
func Suspend(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask, suspend bool) (already bool, err error) {
	done := "resumed"
	if suspend {
		done = "suspended"
	}
	switch {
	case gputask.IsFinished(task):
		return false, fmt.Errorf("task %s can't be %s: it has %s", task.Name, done, task.Status.Phase)
	case gputask.SuspensionRequested(task) == suspend:
		return true, nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"suspend":%t}}`, task.UID, suspend)
	_, err = clients.Tasks.FalldioV1().GPUTasks(task.Namespace).Patch(ctx, task.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return false, err
}

// Scale sets spec.replicas of a task. The API server says for which tasks that can be done.
func Scale(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask, replicas int32) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"replicas":%d}}`, task.UID, replicas)
	_, err := clients.Tasks.FalldioV1().GPUTasks(task.Namespace).Patch(ctx, task.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

// Delete deletes a task, and the garbage collector then its Pods.
func Delete(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) error {
	return clients.Tasks.FalldioV1().GPUTasks(task.Namespace).Delete(ctx, task.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &task.UID},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
}

// Approve approves a MovePlan; already is true if it was.
func Approve(ctx context.Context, clients *cluster.Clients, plan *v1.MovePlan) (already bool, err error) {
	if plan.Spec.Abort && !moveplan.Finished(plan) {
		return false, fmt.Errorf("plan %s can't be approved: it is being aborted", plan.Name)
	}
	return setOfPlan(ctx, clients, plan, "approved", "approved", plan.Spec.Approved)
}

// Abort aborts a MovePlan; already is true if it was.
func Abort(ctx context.Context, clients *cluster.Clients, plan *v1.MovePlan) (already bool, err error) {
	return setOfPlan(ctx, clients, plan, "abort", "aborted", plan.Spec.Abort)
}

// setOfPlan sets a field of a plan that has not finished.
func setOfPlan(ctx context.Context, clients *cluster.Clients, plan *v1.MovePlan, field, done string, already bool) (bool, error) {
	switch {
	case moveplan.Finished(plan):
		return false, fmt.Errorf("plan %s can't be %s: it is %s already", plan.Name, done, plan.Status.Phase)
	case already:
		return true, nil
	}
	// The UID keeps a new plan of the same name unchanged.
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{%q:true}}`, plan.UID, field)
	_, err := clients.Tasks.FalldioV1().MovePlans().Patch(ctx, plan.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return false, err
}
