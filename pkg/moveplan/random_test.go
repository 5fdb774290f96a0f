// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// TestRandomPlans carries out many plans in a model of a cluster. The process is killed
// between its writes, its caches are stale, Pods end, nodes are cordoned, tasks are
// suspended, PodDisruptionBudgets shrink, people abort. Whatever happens, the plan ends,
// leaves no reservations behind, has disturbed one task at a time, and no Pod that had a
// node and was moved is left without one.
func TestRandomPlans(t *testing.T) {
	t.Parallel()
	ends := map[string]int{}
	for seed := range uint64(2500) {
		m := newModel(t, seed)
		if !m.makePlan() {
			continue
		}
		trouble := seed%3 != 0
		m.kills, m.stale = 100, 300
		m.runWith(trouble)
		m.checkEnd(trouble)
		ends[m.plan.Status.Reason]++
		if t.Failed() {
			t.Fatalf("seed %d: plan %+v\n%+v", seed, m.plan.Spec, m.plan.Status)
		}
	}
	t.Log(ends)
	for _, reason := range []string{ReasonStarted, ReasonCompleted, ReasonAbortRequested, ReasonDrifted, ReasonElsewhere, ReasonForbidden, ReasonTimedOut, ReasonNotNeeded} {
		if ends[reason] == 0 {
			t.Errorf("no plan ended with %s: the test has become blind", reason)
		}
	}
}

// TestAPlanSurvivesAKillBeforeEveryRequest kills the process before its first request,
// then, in another life, before its second, and so on: the plan is done all the same.
func TestAPlanSurvivesAKillBeforeEveryRequest(t *testing.T) {
	t.Parallel()
	for killAt := 0; ; killAt++ {
		m := newModel(t, 42)
		m.documents()
		m.killAt = killAt
		m.run()
		m.checkEnd(false)
		if m.plan.Status.Phase != v1.PlanDone || m.plan.Status.Moved != m.plan.Status.Total {
			t.Fatalf("killed before request %d: %+v", killAt, m.plan.Status)
		}
		if m.writes <= killAt {
			if killAt < 10 {
				t.Fatalf("only %d requests", killAt)
			}
			return
		}
	}
}

// documents is a gang and a Pod that leave a node for a task of four GPUs.
func (m *model) documents() {
	for i := range 3 {
		m.addNode(fmt.Sprintf("n%d", i))
	}
	m.addTask("single", 1, "n0")
	m.addTask("gang", 1, "n0", "n1")
	m.addTask("other", 3, "n2")
	m.addTask("pending", 4, "")
	m.planFor("n0")
}

// makePlan makes a cluster and a plan that empties one of its nodes. It returns false
// if there is no room for that.
func (m *model) makePlan() bool {
	nodes := 3 + m.random.IntN(4)
	for i := range nodes {
		m.addNode(fmt.Sprintf("n%d", i))
	}
	for i := range 2 + m.random.IntN(2*nodes) {
		m.fill(fmt.Sprintf("t%d", i))
	}
	if m.chance(500) {
		m.addTask("pending", 4, "")
	}
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		if used := m.used(name); used > 0 && used < cardsPerNode && m.planFor(name) {
			return true
		}
	}
	return false
}

// fill adds a task that runs somewhere, if it fits.
func (m *model) fill(name string) {
	gpus, replicas := 1+m.random.IntN(2), 1+m.random.IntN(2)*m.random.IntN(3)
	var nodes []string
	for range max(1, replicas) {
		node := fmt.Sprintf("n%d", m.random.IntN(len(m.nodes)))
		taken := gpus
		for _, other := range nodes {
			if other == node {
				taken += gpus
			}
		}
		if m.used(node)+taken > cardsPerNode {
			return
		}
		nodes = append(nodes, node)
	}
	task := m.addTask(name, gpus, nodes...)
	if m.chance(150) {
		limit := intstr.FromInt32(int32(m.random.IntN(3)))
		m.budgets[name] = &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &limit, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTask: task.Name}}},
		}
	}
}

// planFor plans to move all from a node, gangs whole.
func (m *model) planFor(node string) bool {
	m.plan = &v1.MovePlan{ObjectMeta: metav1.ObjectMeta{Name: "plan", UID: "plan"}, Spec: v1.MovePlanSpec{
		Goal: v1.GoalCapacity, Reason: "an example", Approved: true, Gain: v1.MoveGain{GPUs: int32(m.used(node)), Nodes: []string{node}},
	}}
	m.touch(m.plan)
	if pending := m.tasks["pending"]; pending != nil {
		m.plan.Spec.Goal, m.plan.Spec.For = v1.GoalPendingTask, reference(pending)
		m.plan.Spec.Places = []v1.PodPlace{{Pod: "pending", MovePlace: v1.MovePlace{Node: node}}}
	} else if m.chance(200) {
		m.plan.Spec.Goal = v1.GoalRecreate
	}
	free := map[string]int{}
	for name := range m.nodes {
		if name != node {
			free[name] = cardsPerNode - m.used(name)
		}
	}
	turn := int32(0)
	for _, name := range slices.Sorted(maps.Keys(m.tasks)) {
		pods := m.podsOf(m.tasks[name])
		if !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node }) {
			continue
		}
		for _, pod := range pods {
			to := pod.Spec.NodeName
			if to == node {
				if to = roomIn(free, gpusOf(pod)); to == "" {
					return false
				}
				free[to] -= gpusOf(pod)
			}
			move := v1.Move{
				Turn: turn, Task: *reference(m.tasks[name]), Pod: pod.Name, PodUID: pod.UID,
				From: v1.MovePlace{Node: pod.Spec.NodeName}, To: v1.MovePlace{Node: to}, LostGPUSeconds: 10,
			}
			if m.plan.Spec.Goal == v1.GoalRecreate {
				move.To = v1.MovePlace{}
			}
			m.plan.Spec.Moves = append(m.plan.Spec.Moves, move)
		}
		turn++
	}
	return turn > 0
}

func roomIn(free map[string]int, gpus int) string {
	for _, name := range slices.Sorted(maps.Keys(free)) {
		if free[name] >= gpus {
			return name
		}
	}
	return ""
}

// runWith is run in a cluster where the given things may go wrong.
func (m *model) runWith(trouble bool) {
	const enough = 3000
	for range enough {
		m.live()
		if trouble && m.chance(200) {
			m.happen()
		}
		for range m.random.IntN(5) {
			m.process()
		}
		if Finished(m.plan) && m.reserved() == 0 {
			return
		}
	}
	m.t.Errorf("the plan has not ended: %+v", m.plan.Status)
}

// happen makes something go wrong at random.
func (m *model) happen() {
	if len(m.tasks) == 0 {
		return
	}
	task := m.tasks[m.any(slices.Sorted(maps.Keys(m.tasks)))]
	var pod *corev1.Pod
	if all := m.podsOf(task); len(all) > 0 {
		pod = all[m.random.IntN(len(all))]
	}
	switch m.random.IntN(10) {
	case 0:
		m.plan.Spec.Abort = true
		m.touch(m.plan)
	case 1:
		node := m.nodes[m.any(slices.Sorted(maps.Keys(m.nodes)))]
		node.Spec.Unschedulable, m.lame = true, true
		m.touch(node)
	case 2:
		task.Spec.Suspend = new(true)
		m.touch(task)
		m.deletePods(task)
	case 3:
		m.deletePods(task)
		delete(m.tasks, task.Name)
	case 4, 5:
		if pod != nil && runs(pod) {
			pod.Status.Phase = corev1.PodSucceeded
			m.touch(pod)
		}
	case 6:
		if pod != nil {
			m.deletePod(pod) // preempted, or its node is gone
		}
	case 7:
		m.stuck[m.any(slices.Sorted(maps.Keys(m.nodes)))], m.lame = true, true
	case 8:
		m.stock = true
	default:
		for _, budget := range m.budgets {
			budget.Spec.MaxUnavailable = new(intstr.FromInt32(0))
			m.allow(budget)
		}
	}
}

func (m *model) any(names []string) string { return names[m.random.IntN(len(names))] }

func (m *model) deletePods(task *v1.GPUTask) {
	for _, pod := range m.podsOf(task) {
		m.deletePod(pod)
	}
}

func (m *model) deletePod(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || podfacts.Ended(pod) {
		delete(m.pods, pod.Name)
		return
	}
	if pod.DeletionTimestamp == nil {
		pod.DeletionTimestamp = &metav1.Time{Time: m.now.Add(30 * time.Second)}
		m.touch(pod)
	}
}

// checkEnd checks what a plan has left behind.
func (m *model) checkEnd(trouble bool) {
	m.checkRecord(trouble)
	m.checkCounts(trouble)
	if m.lame || m.t.Failed() {
		return
	}
	m.settle()
	for name, task := range m.tasks {
		if stopped(&clusterview.Task{GPUTask: task}) || task.Status.Phase == v1.PhaseRunning {
			continue
		}
		if name != "pending" {
			m.t.Errorf("GPUTask %s is %s after the moves", name, task.Status.Phase)
		} else if m.plan.Status.Phase == v1.PlanDone {
			m.t.Errorf("the plan is done and the task is %s that it was for", task.Status.Phase)
		}
	}
}

// checkRecord compares the recorded moves with the actual evictions.
func (m *model) checkRecord(trouble bool) {
	for i := range m.plan.Status.Moves {
		move, record := &m.plan.Spec.Moves[i], &m.plan.Status.Moves[i]
		_, wasEvicted := m.evicted[move.PodUID]
		if record.State == v1.MoveWaiting {
			m.t.Errorf("Pod %s still waits for its turn", move.Pod)
		}
		if onRecord := record.EvictedAt != nil; wasEvicted && !onRecord || !wasEvicted && onRecord && !trouble {
			m.t.Errorf("Pod %s: evicted %t, on record %v", move.Pod, wasEvicted, record.EvictedAt)
		}
		if task := m.tasks[move.Task.Name]; task != nil && wasEvicted && task.Status.Moves != 1 {
			m.t.Errorf("GPUTask %s was moved once, %d moves were counted", task.Name, task.Status.Moves)
		}
	}
}

// checkCounts checks that no move was counted that did not happen. A Pod that ends by
// itself between the intent and the eviction counts as moved.
func (m *model) checkCounts(trouble bool) {
	for name, task := range m.tasks {
		if task.Status.Moves > 1 || (len(m.evicted) == 0 && task.Status.Moves > 0 && !trouble) {
			m.t.Errorf("GPUTask %s has %d moves, %d Pods were moved", name, task.Status.Moves, len(m.evicted))
		}
	}
}

// settle lets the cluster come to rest.
func (m *model) settle() {
	for range 50 {
		m.live()
	}
}

func makeTask(name string, gpus, replicas int) *v1.GPUTask {
	return &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(testTime.Add(-time.Hour))},
		Spec:       v1.GPUTaskSpec{GPUAmount: fmt.Sprint(gpus), Replicas: new(int32(replicas))},
	}
}

func makeNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func reference(task *v1.GPUTask) *v1.TaskReference {
	return &v1.TaskReference{Namespace: task.Namespace, Name: task.Name, UID: task.UID}
}

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
