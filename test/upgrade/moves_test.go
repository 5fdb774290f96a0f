// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// holdFinalizer keeps a Pod that is deleted from being gone, as a container does that takes long to stop.
const holdFinalizer = "upgrade.falldio.com/hold"

// move is a MovePlan under way: one Pod of two is being moved, so that a third gets a whole node.
type move struct {
	namespace, plan string
	// moved is the task that is being moved, stays the other one, and whole the one that room is made for.
	moved, stays, whole string
}

// tasks are the keys of the tasks that the move changes.
func (m *move) tasks() map[string]bool {
	return map[string]bool{m.namespace + "/" + m.moved: true, m.namespace + "/" + m.whole: true}
}

func (m *move) plans() map[string]bool { return map[string]bool{m.plan: true} }

// startMove brings about a move on the two nodes of a model, and returns when the Pod to be moved has
// been asked to stop, which it doesn't yet.
func (s *scene) startMove(model string) *move {
	s.Helper()
	m := &move{namespace: "moves-" + model, whole: "whole"}
	s.createNamespace(m.namespace)
	create := func(name, gpus string) job {
		task := newTask(m.namespace, name, gpus)
		task.Spec.GPU = model
		return runs(task, 1)
	}
	// Two of three share a node. When one of these is gone, each node has one.
	halves := []job{create("half-0", "4"), create("half-1", "4"), create("half-2", "4")}
	s.await(s.submit(halves...)...)
	superfluous := s.oneOfTwoTogether(m.namespace)
	err := s.tasks.FalldioV1().GPUTasks(m.namespace).Delete(s.Context(), superfluous, metav1.DeleteOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.eventually("the third task is gone", func() (bool, string) {
		_, err := s.kube.CoreV1().Pods(m.namespace).Get(s.Context(), superfluous, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	halves = slices.DeleteFunc(halves, func(j job) bool { return j.Name == superfluous })
	for i := range halves {
		s.patchPod(m.namespace, halves[i].Name, `{"metadata": {"finalizers": [%q]}}`, holdFinalizer)
	}
	s.submit(create(m.whole, "8"))
	s.eventually("a Pod is being moved", func() (bool, string) {
		plan := s.planFor(m)
		if plan == nil {
			return false, "there is no plan"
		}
		m.plan = plan.Name
		if len(plan.Spec.Moves) != 1 {
			s.Fatalf("plan %s has the moves %v, not one", plan.Name, plan.Spec.Moves)
		}
		m.moved = plan.Spec.Moves[0].Pod
		return s.pod(m.namespace, m.moved).DeletionTimestamp != nil, describePlan(plan)
	})
	m.stays = halves[0].Name
	if m.stays == m.moved {
		m.stays = halves[1].Name
	}
	return m
}

// oneOfTwoTogether returns the name of a Pod that shares its node with another one.
func (s *scene) oneOfTwoTogether(namespace string) string {
	s.Helper()
	pods, err := s.kube.CoreV1().Pods(namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range pods.Items {
		if seen[pods.Items[i].Spec.NodeName] {
			return pods.Items[i].Name
		}
		seen[pods.Items[i].Spec.NodeName] = true
	}
	s.Fatal("no two of three Pods share one of two nodes")
	return ""
}

func (s *scene) pod(namespace, name string) *corev1.Pod {
	s.Helper()
	pod, err := s.kube.CoreV1().Pods(namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

// planFor returns the plan that makes room for the task of a move; nil if there is none.
func (s *scene) planFor(m *move) *v1.MovePlan {
	s.Helper()
	plans, err := s.tasks.FalldioV1().MovePlans().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range plans.Items {
		if task := plans.Items[i].Spec.For; task != nil && task.Namespace == m.namespace {
			return &plans.Items[i]
		}
	}
	return nil
}

// describePlan says how far a plan is; nil is one that is gone.
func describePlan(plan *v1.MovePlan) string {
	if plan == nil {
		return "it is gone"
	}
	return fmt.Sprintf("%s is %s (%s %s), moves %+v", plan.Name, plan.Status.Phase, plan.Status.Reason, plan.Status.Message, plan.Status.Moves)
}

// finishMove lets the Pod that is being moved stop, and waits until the plan has done what it is for.
func (s *scene) finishMove(m *move) {
	s.Helper()
	for _, name := range []string{m.moved, m.stays} {
		s.patchPod(m.namespace, name, `{"metadata": {"finalizers": null}}`)
	}
	s.eventually("plan "+m.plan+" is done", func() (bool, string) {
		plan := s.planFor(m)
		return plan != nil && plan.Status.Phase == v1.PlanDone && plan.Status.Moved == 1, describePlan(plan)
	})
	for _, name := range []string{m.moved, m.stays, m.whole} {
		moves := int32(0)
		if name == m.moved {
			moves = 1
		}
		s.eventually(fmt.Sprintf("GPUTask %s/%s runs, was moved %s and has not restarted", m.namespace, name, times(moves)), func() (bool, string) {
			task, err := s.tasks.FalldioV1().GPUTasks(m.namespace).Get(s.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			status := &task.Status
			return status.Phase == v1.PhaseRunning && status.Running == 1 && status.Moves == moves && status.Restarts == 0,
				fmt.Sprintf("%s: %s, was moved %s and has restarted %s", status.Phase, status.Message, times(status.Moves), times(status.Restarts))
		})
	}
	s.eventually("no place is kept for plan "+m.plan, func() (bool, string) {
		kept := s.record().reservations
		return len(kept) == 0, fmt.Sprint(kept)
	})
}
