// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// lot is a random cluster that both the scheduler and the command line look at.
type lot struct {
	t      *testing.T
	random *rand.Rand
	*fixture
	world clusterview.Objects
	// free are the free cards of each node.
	free map[string][]int
}

const cardsPerNode = 4

// newLot fills nodes with tasks of one Pod and gangs, some of whose Pods are leaving or
// protected by a budget; places may be kept for Pods that are moved.
func newLot(t *testing.T, random *rand.Rand) *lot {
	t.Helper()
	l := &lot{t: t, random: random, fixture: newFixture(t), free: map[string][]int{}}
	l.world = clusterview.Objects{Levels: snapshot.DefaultLevels(), Now: beginning}
	for i := range 2 + random.IntN(3) {
		name := fmt.Sprintf("node-%d", i)
		l.addNode(name, fmt.Sprintf("leaf-%d", i%2), cardsPerNode)
		node := l.infos[name].Node()
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		l.world.Nodes = append(l.world.Nodes, node)
		l.free[name] = []int{0, 1, 2, 3}
	}
	for i := range random.IntN(3 * len(l.names)) {
		l.addRunning(fmt.Sprintf("task-%d", i))
	}
	for _, name := range l.names {
		l.reserve(name)
	}
	if random.IntN(2) == 0 {
		l.protect(int32(random.IntN(2)))
	}
	return l
}

// newTask returns a task of so many Pods, and its Pods.
func (l *lot) newTask(name string, pods, minimum, gpus int, priority int32, required bool) clusterview.Task {
	l.t.Helper()
	created := metav1.NewTime(beginning.Add(-time.Hour))
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: created},
		Spec:       v1.GPUTaskSpec{GPUAmount: fmt.Sprint(gpus), Replicas: new(int32(pods)), MinAvailable: new(int32(minimum))},
		Status:     v1.GPUTaskStatus{Phase: v1.PhasePending},
	}
	if required {
		task.Spec.Topology = &v1.Topology{Level: "leaf", Mode: v1.TopologyRequired}
	}
	its := clusterview.Task{GPUTask: task}
	for index := range pods {
		pod, err := gputask.NewPod(task, index, 0, gputask.PodDefaults{Image: "any"})
		if err != nil {
			l.t.Fatal(err)
		}
		pod.UID, pod.CreationTimestamp = types.UID(fmt.Sprintf("%s-%d", name, index)), created
		pod.Spec.Priority, pod.Spec.SchedulerName = &priority, ours
		pod.Spec.Containers[0].Name = "main" // as at assigns cards
		its.Pods = append(its.Pods, pod)
	}
	return its
}

// addRunning lets a task run where there is room for it, if there is.
func (l *lot) addRunning(name string) {
	l.t.Helper()
	pods, gpus := 1+l.random.IntN(3), 1+l.random.IntN(2)
	task := l.newTask(name, pods, 1+l.random.IntN(pods), gpus, int32(l.random.IntN(4)), false)
	task.Status.Phase = v1.PhaseRunning
	var running []*corev1.Pod
	for _, pod := range task.Pods {
		node := l.names[l.random.IntN(len(l.names))]
		if len(l.free[node]) < gpus {
			continue
		}
		cards := l.free[node][:gpus]
		l.free[node] = l.free[node][gpus:]
		pod = at(pod, node, cards...)
		pod.Status.Phase = corev1.PodRunning
		if l.random.IntN(6) == 0 {
			leaves := metav1.NewTime(beginning.Add(time.Minute))
			pod.DeletionTimestamp = &leaves
		}
		running = append(running, pod)
	}
	if len(running) == 0 {
		return
	}
	task.Pods = running
	l.world.Tasks = append(l.world.Tasks, task)
	l.world.Pods = append(l.world.Pods, running...)
	l.comes(running...)
}

// reserve keeps free cards of a node, for a Pod of another node or of the same one.
func (l *lot) reserve(node string) {
	l.t.Helper()
	if len(l.free[node]) == 0 || l.random.IntN(3) > 0 {
		return
	}
	kept := reservation.Reservation{
		Plan: "plan", Pod: "default/other", Kind: reservation.Move, GPUs: []string{fmt.Sprintf("%s-%d", node, l.free[node][0])},
		Priority: int32(l.random.IntN(4)), Until: beginning.Add(time.Hour),
	}
	for _, pod := range l.world.Pods {
		if pod.Spec.NodeName == node {
			kept.Pod = reservation.PodKey(pod.Namespace, pod.Name)
		}
	}
	text, err := reservation.Format([]reservation.Reservation{kept})
	if err != nil {
		l.t.Fatal(err)
	}
	l.infos[node].Node().Annotations[reservation.Annotation] = text
}

// protect covers all Pods by a budget.
func (l *lot) protect(allowed int32) {
	l.t.Helper()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "all"}}
	budget.Spec.Selector = &metav1.LabelSelector{}
	budget.Status.DisruptionsAllowed = allowed
	l.world.Budgets = append(l.world.Budgets, budget)
	if err := l.handle.informers.Policy().V1().PodDisruptionBudgets().Informer().GetStore().Add(budget); err != nil {
		l.t.Fatal(err)
	}
}

// scheduled returns what the scheduler does for a task, and which Pods have to leave for it.
func (l *lot) scheduled(task *clusterview.Task) (verdict string, victims []string) {
	l.t.Helper()
	l.comes(task.Pods...)
	decision := l.decide(task.Pods[0])
	switch {
	case decision.Wrong != "":
		return "wrong: " + decision.Wrong, nil
	case decision.Node != "":
		return "now", nil
	}
	names, fits := l.wantVictims(task.Pods[0])
	if !fits || len(names) == 0 {
		return "waits", nil
	}
	return "preempts", l.tasksOf(names)
}

// tasksOf returns the tasks of Pods.
func (l *lot) tasksOf(pods []string) []string {
	tasks := map[string]bool{}
	for _, pod := range l.world.Pods {
		if slices.Contains(pods, pod.Name) {
			tasks[pod.Namespace+"/"+pod.Labels[v1.LabelTask]] = true
		}
	}
	return slices.Sorted(maps.Keys(tasks))
}

// foretold returns what the command line predicts for a task.
func (l *lot) foretold(task *clusterview.Task) (verdict string, victims []string) {
	l.t.Helper()
	world := l.world
	world.Tasks = append(slices.Clone(world.Tasks), *task)
	explanation, found := analysis.NewView(&world, nil).Explain(task.Namespace, task.Name)
	if !found || explanation.Outlook == nil {
		l.t.Fatal("the task does not wait for room")
	}
	switch outlook := explanation.Outlook; outlook.Verdict {
	case analysis.Now:
		return "now", nil
	case analysis.AfterPreemption:
		return "preempts", outlook.Victims
	case analysis.Invalid:
		return "wrong: " + outlook.Problem, nil
	default:
		return "waits", nil
	}
}

// What "kubectl gputask explain" predicts is what the scheduler then does.
func TestTheCommandLineForetellsTheScheduler(t *testing.T) {
	t.Parallel()
	const clusters = 1000
	seen := map[string]int{}
	for seed := range uint64(clusters) {
		random := rand.New(rand.NewPCG(seed, 7))
		l := newLot(t, random)
		pods := 1 + random.IntN(3)
		task := l.newTask("wants", pods, 1+random.IntN(pods), 1+random.IntN(cardsPerNode), int32(random.IntN(5)), random.IntN(3) == 0)
		foretold, leaving := l.foretold(&task)
		verdict, victims := l.scheduled(&task)
		kind, _, _ := strings.Cut(verdict, ":")
		seen[kind]++
		if foretold != verdict {
			t.Fatalf("seed %d: the command line says %q (%v leave), the scheduler %q (%v leave)", seed, foretold, leaving, verdict, victims)
		}
		if diff := cmp.Diff(victims, leaving); diff != "" {
			t.Fatalf("seed %d: victims (-scheduler +command line):\n%s", seed, diff)
		}
	}
	for _, verdict := range []string{"now", "preempts", "waits"} {
		if seen[verdict] < clusters/20 {
			t.Errorf("%d of %d clusters have the verdict %q, which proves little", seen[verdict], clusters, verdict)
		}
	}
	t.Logf("verdicts: %v", seen)
}
