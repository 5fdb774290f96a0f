// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// withoutController is the cluster of the tests about rescheduling: each runs a
// controller of its own, and most a scheduler.
var withoutController = sync.OnceValues(func() (*testCluster, error) {
	return startCluster("rescheduling", "--controller=none", "--nodes=name=idle,model=idle,count=1,gpus=1,gpu-memory=1024Mi")
})

// rescheduling is a suite with a controller and a scheduler of its own, which can be
// killed.
type rescheduling struct {
	*suite
	// args are the flags of the controller.
	args []string
	// profile is the scheduler's profile, change its changed arguments.
	profile    int
	change     arguments
	controller *process
	scheduler  *process
}

// promptly are flags with which the controller reacts quickly.
var promptly = []string{
	"--reschedule-period=1s", "--reschedule-patience=1s", "--reschedule-cooldown=0s", "--reschedule-backoff=1s",
	"--reschedule-approve-cost=1000000", "--reschedule-threshold=0",
}

func newRescheduling(t *testing.T, machines ...machine) *rescheduling {
	t.Helper()
	return newReschedulingWith(t, packing, nil, machines...)
}

// newReschedulingWith also selects the scheduler's profile and changes its arguments.
func newReschedulingWith(t *testing.T, profile int, change arguments, machines ...machine) *rescheduling {
	t.Helper()
	c, err := withoutController()
	if err != nil {
		t.Fatal(err)
	}
	r := &rescheduling{suite: newSuiteIn(t, c), profile: profile, change: change}
	r.addNodes(machines...)
	r.scheduler = r.startSchedulerAs(profile, r.namespace, change)
	r.controller = r.startController()
	return r
}

// startController runs a controller for the suite's namespace.
func (r *rescheduling) startController(args ...string) *process {
	r.Helper()
	r.args = args
	return r.startProcess(binary("gpu-controller"), append([]string{
		"--kubeconfig=" + filepath.Join(r.Dir, "gpu-controller.kubeconfig"), "--namespace=" + r.namespace,
		"--leader-elect=false", "--metrics-bind-address=0", "--retry-backoff=1s", "-v=2",
	}, args...)...)
}

// reschedule turns rescheduling on in the controller, which until then only creates Pods.
func (r *rescheduling) reschedule(args ...string) {
	r.Helper()
	r.controller.stop()
	r.controller = r.startController(slices.Concat(promptly, args)...)
}

// killController kills the controller with SIGKILL and starts another one.
func (r *rescheduling) killController() {
	r.Helper()
	r.controller.kill()
	r.controller = r.startController(r.args...)
}

// killScheduler kills the scheduler with SIGKILL and starts another one.
func (r *rescheduling) killScheduler() {
	r.Helper()
	r.scheduler.kill()
	r.scheduler = r.startSchedulerAs(r.profile, r.namespace, r.change)
}

// run creates tasks on a node and waits until they run there.
func (r *rescheduling) run(node string, gangs ...gang) {
	r.Helper()
	r.setOthersClosed(node, true)
	for _, g := range gangs {
		g.scheduler = r.namespace
		r.createTasks(g)
		r.waitForRunning(g.name)
	}
	r.setOthersClosed(node, false)
}

// setOthersClosed cordons or uncordons all nodes of the test but one.
func (r *rescheduling) setOthersClosed(open string, closed bool) {
	r.Helper()
	for _, node := range r.ownNodes() {
		if node != r.node(open) {
			r.patchNode(strings.TrimPrefix(node, r.namespace+"-"), `{"spec": {"unschedulable": %t}}`, closed)
		}
	}
}

func (r *rescheduling) ownNodes() []string {
	r.Helper()
	nodes, err := r.kube.CoreV1().Nodes().List(r.Context(), metav1.ListOptions{LabelSelector: v1.LabelGPUModel + "=" + r.model()})
	if err != nil {
		r.Fatal(err)
	}
	var names []string
	for i := range nodes.Items {
		names = append(names, nodes.Items[i].Name)
	}
	return names
}

// submit creates a task that may go anywhere.
func (r *rescheduling) submit(g gang) {
	r.Helper()
	g.scheduler = r.namespace
	r.createTasks(g)
}

// waitForRunning waits until all Pods of a task run, and returns them.
func (r *rescheduling) waitForRunning(task string) []*corev1.Pod {
	r.Helper()
	var pods []*corev1.Pod
	r.eventually(fmt.Sprintf("GPUTask %s runs with all its Pods", task), func() (bool, string) {
		got := r.getTask(task)
		pods = r.ledger.podsOf(task)
		running := countPods(pods, func(pod *corev1.Pod) bool { return stays(pod) && pod.Status.Phase == corev1.PodRunning })
		return got.Status.Phase == v1.PhaseRunning && running == len(pods) && running == int(*got.Spec.Replicas),
			fmt.Sprintf("%s: %s; %s; %s", got.Status.Phase, got.Status.Message, describe(pods), r.describePlans())
	})
	return pods
}

// identities are the UIDs of a task's Pods.
func (r *rescheduling) identities(task string) map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, pod := range r.ledger.podsOf(task) {
		all[pod.UID] = true
	}
	return all
}

// plans returns the MovePlans that move Pods of the suite, the oldest first.
func (r *rescheduling) plans() []v1.MovePlan {
	r.Helper()
	list, err := r.tasks.FalldioV1().MovePlans().List(r.Context(), metav1.ListOptions{})
	if err != nil {
		r.Fatal(err)
	}
	own := slices.DeleteFunc(list.Items, func(plan v1.MovePlan) bool {
		return plan.Spec.Moves[0].Task.Namespace != r.namespace
	})
	slices.SortFunc(own, func(a, b v1.MovePlan) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return own
}

func (r *rescheduling) describePlans() string {
	var texts []string
	for _, plan := range r.plans() {
		texts = append(texts, fmt.Sprintf("%s %s (%s) %s %+v", plan.Name, plan.Status.Phase, plan.Status.Reason, plan.Status.Message, plan.Status.Moves))
	}
	return strings.Join(texts, "; ")
}

// waitForPlan waits until there is a plan for which a condition holds.
func (r *rescheduling) waitForPlan(what string, holds func(*v1.MovePlan) bool) *v1.MovePlan {
	r.Helper()
	var found *v1.MovePlan
	r.eventually("there is a MovePlan that "+what, func() (bool, string) {
		plans := r.plans()
		for i := range plans {
			if holds(&plans[i]) {
				found = &plans[i]
				return true, ""
			}
		}
		return false, r.describePlans()
	})
	return found
}

func (r *rescheduling) waitForPhase(phase v1.MovePlanPhase) *v1.MovePlan {
	r.Helper()
	return r.waitForPlan("is "+string(phase), func(plan *v1.MovePlan) bool { return plan.Status.Phase == phase })
}

// isFinal reports whether a plan has ended.
func isFinal(plan *v1.MovePlan) bool {
	return plan.Status.Phase == v1.PlanDone || plan.Status.Phase == v1.PlanAborted
}

// checkSettled waits until no plan is being carried out and there are no reservations.
func (r *rescheduling) checkSettled() {
	r.Helper()
	r.eventually("all plans have ended", func() (bool, string) {
		plans := r.plans()
		return !slices.ContainsFunc(plans, func(plan v1.MovePlan) bool { return !isFinal(&plan) }), r.describePlans()
	})
	r.eventually("no place is kept any more", func() (bool, string) {
		for _, name := range r.ownNodes() {
			node, err := r.kube.CoreV1().Nodes().Get(r.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			if text := node.Annotations[reservation.Annotation]; text != "" {
				return false, name + ": " + text
			}
		}
		return true, ""
	})
}

// checkUntouched fails if any Pod of the tasks has been replaced.
func (r *rescheduling) checkUntouched(before map[types.UID]bool, tasks ...string) {
	r.Helper()
	for _, task := range tasks {
		for _, pod := range r.ledger.podsOf(task) {
			if !before[pod.UID] {
				r.Errorf("Pod %s was moved", pod.Name)
			}
		}
	}
}

// letPass waits for some periods in which the controller must not do anything.
func (r *rescheduling) letPass(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

// fragmented returns a suite with two nodes of 8 GPUs, on each of which one task has
// four: there is no room for a task of 8.
func fragmented(t *testing.T) *rescheduling {
	t.Helper()
	r := newRescheduling(t, machines(2, machine{name: "n", gpus: 8})...)
	r.run("n-0", gang{name: "a", gpus: 4})
	r.run("n-1", gang{name: "b", gpus: 4})
	return r
}

// forbidEvictions protects all Pods that have a label from eviction, and waits until the
// PodDisruptionBudget is in effect.
func (r *rescheduling) forbidEvictions(label string) {
	r.Helper()
	budgets := r.kube.PolicyV1().PodDisruptionBudgets(r.namespace)
	_, err := budgets.Create(r.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpExists}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.eventually("the disruption budget is in force", func() (bool, string) {
		budget, err := budgets.Get(r.Context(), "guard", metav1.GetOptions{})
		return err == nil && budget.Status.ObservedGeneration > 0, fmt.Sprint(err)
	})
}
